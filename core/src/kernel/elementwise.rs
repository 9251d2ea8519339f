//! Kernels that compute each element from the elements at the same index.
//!
//! A loop runs over at most [`CHUNK`] elements at a time; operands are broadcast to the shape of the result, and
//! the result is contiguous.

use super::source::CHUNK;
use super::{KernelFault, level};
use crate::buffer::{View, reserve};
use crate::dtype::Element;
use crate::layout::numel;
use gradloom_ir::DType;
use gradloom_ir::op::{BinaryFns, CompareFns, UnaryFns};

/// A result of `shape` whose pieces `f` writes, in row-major order.
pub(super) fn fill<T: Element>(
    shape: &[usize],
    mut f: impl FnMut(&mut [T]),
) -> Result<View, KernelFault> {
    let n = numel(shape);
    let mut out = reserve::<T>(n)?;
    while out.len() < n {
        let at = out.len();
        // Growing by a chunk keeps what is zeroed here in the cache for the loop that overwrites it.
        out.resize(at + CHUNK.min(n - at), T::default());
        f(&mut out[at..]);
    }
    Ok(View::new(out, shape))
}

pub(super) fn map<T: Element, U: Element>(
    x: &View,
    f: impl Fn(&[T], &mut [U]),
) -> Result<View, KernelFault> {
    let x = x.straight::<T>()?;
    let mut xs = x.source::<T>();
    fill(x.shape(), |out| f(xs.next(out.len()), out))
}

fn zip<T: Element, U: Element>(
    x: &View,
    y: &View,
    shape: &[usize],
    f: impl Fn(&[T], &[T], &mut [U]),
) -> Result<View, KernelFault> {
    let x = x.broadcast_to(shape).straight::<T>()?;
    let y = y.broadcast_to(shape).straight::<T>()?;
    let (mut xs, mut ys) = (x.source::<T>(), y.source::<T>());
    fill(shape, |out| f(xs.next(out.len()), ys.next(out.len()), out))
}

const TAKEN: &str = "the dtype rule refuses what the op has no loop for";

pub(super) fn unary(fns: &UnaryFns, x: &View) -> Result<View, KernelFault> {
    match x.dtype() {
        DType::F32 => map(x, level::unary(&fns.f32)),
        DType::F64 => map(x, level::unary(&fns.f64)),
        DType::I32 => map(x, level::unary(&fns.i32.expect(TAKEN))),
        DType::I64 => map(x, level::unary(&fns.i64.expect(TAKEN))),
        DType::Bool => unreachable!("{TAKEN}"),
    }
}

pub(super) fn binary(
    fns: &BinaryFns,
    x: &View,
    y: &View,
    shape: &[usize],
) -> Result<View, KernelFault> {
    match x.dtype() {
        DType::F32 => zip(x, y, shape, level::binary(&fns.f32)),
        DType::F64 => zip(x, y, shape, level::binary(&fns.f64)),
        DType::I32 => zip(x, y, shape, level::binary(&fns.i32.expect(TAKEN))),
        DType::I64 => zip(x, y, shape, level::binary(&fns.i64.expect(TAKEN))),
        DType::Bool => unreachable!("{TAKEN}"),
    }
}

pub(super) fn compare(
    fns: &CompareFns,
    x: &View,
    y: &View,
    shape: &[usize],
) -> Result<View, KernelFault> {
    match x.dtype() {
        DType::F32 => zip(x, y, shape, level::compare(&fns.f32)),
        DType::F64 => zip(x, y, shape, level::compare(&fns.f64)),
        DType::I32 => zip(x, y, shape, level::compare(&fns.i32)),
        DType::I64 => zip(x, y, shape, level::compare(&fns.i64)),
        DType::Bool => zip(x, y, shape, level::compare(&fns.bool)),
    }
}

pub(super) fn select(c: &View, x: &View, y: &View, shape: &[usize]) -> Result<View, KernelFault> {
    fn run<T: Element>(_: &[T], args: [&View; 3], shape: &[usize]) -> Result<View, KernelFault> {
        let [c, x, y] = args.map(|v| v.broadcast_to(shape));
        let (mut cs, mut xs, mut ys) = (c.source::<bool>(), x.source::<T>(), y.source::<T>());
        fill(shape, |out| {
            let n = out.len();
            let operands = cs.next(n).iter().zip(xs.next(n)).zip(ys.next(n));
            for (z, ((&c, &x), &y)) in out.iter_mut().zip(operands) {
                *z = if c { x } else { y };
            }
        })
    }
    on_elements!(&*x.buffer, xs => run(xs, [c, x, y], shape))
}

/// Floats become integers by truncation that saturates, NaN becomes 0; a bool is whether the element is not 0.
pub(super) fn cast(x: &View, to: DType) -> Result<View, KernelFault> {
    macro_rules! each {
        ($($from:ident: $f:ident),*) => {
            match (x.dtype(), to) {
                (from, to) if from == to => Ok(x.clone()),
                $((DType::$from, DType::F32) => convert(x, |v: $f| v as f32),
                (DType::$from, DType::F64) => convert(x, |v: $f| v as f64),
                (DType::$from, DType::I32) => convert(x, |v: $f| v as i32),
                (DType::$from, DType::I64) => convert(x, |v: $f| v as i64),
                (DType::$from, DType::Bool) => convert(x, |v: $f| v != 0 as $f),)*
                (DType::Bool, DType::F32) => convert(x, |v: bool| f32::from(v)),
                (DType::Bool, DType::F64) => convert(x, |v: bool| f64::from(v)),
                (DType::Bool, DType::I32) => convert(x, |v: bool| i32::from(v)),
                (DType::Bool, DType::I64) => convert(x, |v: bool| i64::from(v)),
                (DType::Bool, DType::Bool) => Ok(x.clone()),
            }
        };
    }
    each!(F32: f32, F64: f64, I32: i32, I64: i64)
}

fn convert<T: Element, U: Element>(x: &View, f: impl Fn(T) -> U) -> Result<View, KernelFault> {
    map(x, |xs: &[T], ys: &mut [U]| {
        for (y, &x) in ys.iter_mut().zip(xs) {
            *y = f(x);
        }
    })
}
