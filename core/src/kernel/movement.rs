//! Kernels that move elements. Most return a view that shares the buffer.

use super::KernelFault;
use super::source::CHUNK;
use crate::buffer::{View, reserve};
use crate::dtype::Element;
use crate::layout::{Layout, numel};
use gradloom_ir::Static;
use gradloom_ir::op::shape;

const CHECKED: &str = "the shape rule checks the static arguments";

pub(super) fn int(value: &Static) -> i64 {
    value.int().expect(CHECKED)
}

fn axis_of(axis: i64, rank: usize) -> usize {
    shape::axis(axis, rank).expect(CHECKED)
}

/// The axis that a static argument names.
pub(super) fn axis(value: &Static, rank: usize) -> usize {
    axis_of(int(value), rank)
}

/// The axes that a static argument names, ascending.
pub(super) fn axes(value: &Static, rank: usize) -> Vec<usize> {
    shape::axes(value, rank, "axes")
        .expect(CHECKED)
        .expect(CHECKED)
}

pub(super) fn transpose(x: &View) -> View {
    let axes: Vec<usize> = (0..x.rank()).rev().collect();
    x.permute(&axes)
}

fn permutation(axes: &Static, rank: usize) -> Vec<usize> {
    axes.ints()
        .expect(CHECKED)
        .iter()
        .map(|&a| axis_of(a, rank))
        .collect()
}

pub(super) fn permute(x: &View, axes: &Static) -> View {
    x.permute(&permutation(axes, x.rank()))
}

pub(super) fn permute_t(x: &View, axes: &Static) -> View {
    let mut inverse = vec![0; x.rank()];
    for (i, axis) in permutation(axes, x.rank()).into_iter().enumerate() {
        inverse[axis] = i;
    }
    x.permute(&inverse)
}

pub(super) fn swap_axes(x: &View, a: &Static, b: &Static) -> View {
    let mut axes: Vec<usize> = (0..x.rank()).collect();
    axes.swap(axis(a, x.rank()), axis(b, x.rank()));
    x.permute(&axes)
}

pub(super) fn moveaxis(x: &View, from: &Static, to: &Static) -> View {
    let mut axes: Vec<usize> = (0..x.rank()).collect();
    let moved = axes.remove(axis(from, x.rank()));
    axes.insert(axis(to, x.rank()), moved);
    x.permute(&axes)
}

/// `y`, a value reduced over `axes`, repeated along them to `shape`.
pub(super) fn sum_t(y: &View, reduced: &Static, shape: &[usize]) -> Result<View, KernelFault> {
    let reduced = axes(reduced, shape.len());
    let unit = |(axis, &len): (usize, &usize)| if reduced.contains(&axis) { 1 } else { len };
    let kept: Vec<usize> = shape.iter().enumerate().map(unit).collect();
    Ok(y.reshape(&kept)?.broadcast_to(shape))
}

/// The part of `layout` that `[starts, stops, steps]` select; `shape` is the shape of the part.
fn part(layout: &Layout, starts: &Static, steps: &Static, shape: &[usize]) -> Layout {
    let entries = starts
        .ints()
        .expect(CHECKED)
        .iter()
        .zip(steps.ints().expect(CHECKED));
    let mut layout = layout.clone();
    for (axis, (&start, &step)) in entries.enumerate() {
        let from_left = if start < 0 {
            start + layout.shape[axis] as i64
        } else {
            start
        };
        layout = layout.narrow(axis, from_left as usize, shape[axis], step as usize);
    }
    layout
}

pub(super) fn slice(x: &View, starts: &Static, steps: &Static, shape: &[usize]) -> View {
    x.with(part(&x.layout, starts, steps, shape))
}

/// Writes the elements of `x` to where `layout` says.
fn scatter<T: Element>(out: &mut [T], layout: &Layout, x: &View) {
    let mut runs = layout.runs();
    let (len, stride) = runs.pop().unwrap_or((1, 1));
    let mut rows = Layout {
        offset: layout.offset,
        shape: runs.iter().map(|r| r.0).collect(),
        strides: runs.iter().map(|r| r.1).collect(),
    };
    let mut xs = x.source::<T>();
    if layout.numel() == 0 {
        return;
    }
    let mut index = vec![0; runs.len()];
    for _ in 0..numel(&rows.shape) {
        for at in (0..len).step_by(CHUNK) {
            let piece = xs.next_chunk(len - at);
            let from = rows.offset + at * stride;
            if stride == 1 {
                out[from..from + piece.len()].copy_from_slice(piece);
            } else {
                for (y, &x) in out[from..].iter_mut().step_by(stride).zip(piece) {
                    *y = x;
                }
            }
        }
        for (i, &(len, stride)) in index.iter_mut().zip(&runs).rev() {
            *i += 1;
            rows.offset += stride;
            if *i < len {
                break;
            }
            *i = 0;
            rows.offset -= len * stride;
        }
    }
}

/// `y` in its place in zeros of `shape`: the transpose of `slice`.
pub(super) fn slice_t(
    y: &View,
    starts: &Static,
    steps: &Static,
    shape: &[usize],
) -> Result<View, KernelFault> {
    fn run<T: Element>(
        _: &[T],
        y: &View,
        to: &Layout,
        shape: &[usize],
    ) -> Result<View, KernelFault> {
        let mut out = reserve::<T>(numel(shape))?;
        out.resize(numel(shape), T::default());
        scatter(&mut out, to, y);
        Ok(View::new(out, shape))
    }
    let to = part(&Layout::contiguous(shape), starts, steps, y.shape());
    on_elements!(&*y.buffer, ys => run(ys, y, &to, shape))
}

pub(super) fn concat(xs: &[&View], axis: usize, shape: &[usize]) -> Result<View, KernelFault> {
    fn run<T: Element>(
        _: &[T],
        xs: &[&View],
        axis: usize,
        shape: &[usize],
    ) -> Result<View, KernelFault> {
        let mut out = reserve::<T>(numel(shape))?;
        if numel(shape) == 0 {
            return Ok(View::new(out, shape));
        }
        // In row-major order, the result is pieces of each operand in turn.
        let outer = numel(&shape[..axis]);
        let piece = |x: &View| numel(&x.shape()[axis..]);
        let mut sources: Vec<_> = xs.iter().map(|x| (piece(x), x.source::<T>())).collect();
        for _ in 0..outer {
            for (len, source) in &mut sources {
                let mut left = *len;
                while left > 0 {
                    let part = source.next_chunk(left);
                    out.extend_from_slice(part);
                    left -= part.len();
                }
            }
        }
        Ok(View::new(out, shape))
    }
    on_elements!(&*xs[0].buffer, ys => run(ys, xs, axis, shape))
}

pub(super) fn stack(xs: &[&View], axis: usize, shape: &[usize]) -> Result<View, KernelFault> {
    let mut unit = shape.to_vec();
    unit[axis] = 1;
    let xs = xs
        .iter()
        .map(|x| x.reshape(&unit))
        .collect::<Result<Vec<_>, _>>()?;
    concat(&xs.iter().collect::<Vec<_>>(), axis, shape)
}

/// The part of `y`, a concatenation along `axis`, that begins at `start` and has `shape`.
pub(super) fn concat_part(y: &View, axis: usize, start: usize, shape: &[usize]) -> View {
    y.with(y.layout.narrow(axis, start, shape[axis], 1))
}

/// Parts along `axis` of the given lengths.
pub(super) fn split(x: &View, axis: usize, lens: impl Iterator<Item = usize>) -> Vec<View> {
    let mut start = 0;
    lens.map(|len| {
        let part = x.with(x.layout.narrow(axis, start, len, 1));
        start += len;
        part
    })
    .collect()
}

pub(super) fn unbind(x: &View, axis: usize) -> Vec<View> {
    (0..x.shape()[axis])
        .map(|i| x.with(x.layout.take(axis, i)))
        .collect()
}

/// `0, 1, 2, ..`
pub(super) fn iota<T: Element>(len: usize) -> Result<View, KernelFault> {
    let mut out = reserve::<T>(len)?;
    out.extend((0..len).map(|i| T::from_static(&Static::Int(i as i64))));
    Ok(View::new(out, &[len]))
}
