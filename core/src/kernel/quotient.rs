//! Integer division and powers, which fail if the divisor is 0.
//!
//! They are tasks of their own, because a group cannot fail. With a constant divisor, as in `n /
//! 2`, they cannot fail and are members of groups.

use super::KernelFault;
use super::number::Number;
use crate::dtype::Element;
use crate::layout::numel;
use crate::plan::{Build, Place};
use crate::{Aval, DType};
use gradloom_ir::Op;
use gradloom_ir::op::{BinaryLoop, Eval};

/// Lowers `x / y` or `x^y` of integers, element by element.
pub(super) fn quotient(b: &mut Build, op: Op, args: &[Place], out: &Aval) -> Place {
    const TAKEN: &str = "only `div` and `pow` of integers can fail";
    let Eval::Binary(fns) = op.def().eval() else {
        unreachable!("{TAKEN}");
    };
    let is_fault = match op {
        Op::Div => Divides::Always,
        _ => Divides::IfNegative,
    };
    let [x, y] = [&args[0], &args[1]].map(|arg| operand(b, arg, out.shape()));
    match out.dtype() {
        DType::I32 => of(b, [x, y], out, fns.i32.expect(TAKEN), is_fault),
        DType::I64 => of(b, [x, y], out, fns.i64.expect(TAKEN), is_fault),
        _ => unreachable!("{TAKEN}"),
    }
}

/// Condition under which an element divides.
#[derive(Clone, Copy)]
enum Divides {
    /// `div`: divides by the second operand.
    Always,
    /// `pow`: divides by the first operand if the second is negative.
    IfNegative,
}

/// Returns the operand in the order of the result, or as its only element.
fn operand(b: &mut Build, x: &Place, shape: &[usize]) -> Place {
    match numel(x.shape()) {
        1 => b.contiguous(x),
        _ => b.contiguous(&x.broadcast_to(shape)),
    }
}

fn of<T: Number + PartialOrd>(
    b: &mut Build,
    [x, y]: [Place; 2],
    out: &Aval,
    run: BinaryLoop<T>,
    divides: Divides,
) -> Place {
    let kernel = move |xs: &[T], ys: &[T], zs: &mut [T]| {
        check(xs, ys, zs.len(), divides)?;
        /// Number of elements that a repeated operand is expanded to at a time.
        const PIECE: usize = 256;
        let (mut x_piece, mut y_piece) = ([T::ZERO; PIECE], [T::ZERO; PIECE]);
        for (i, zs) in zs.chunks_mut(PIECE).enumerate() {
            let (start, n) = (i * PIECE, zs.len());
            let x = piece(xs, &mut x_piece, start, n);
            let y = piece(ys, &mut y_piece, start, n);
            (run.baseline)(x, y, zs);
        }
        Ok(())
    };
    let kernel = Box::new(
        move |args: &[super::Data<'_>], outs: &mut [super::DataMut<'_>]| {
            kernel(
                T::slice(args[0]),
                T::slice(args[1]),
                T::slice_mut(&mut outs[0]),
            )
        },
    );
    b.kernel(&[&x, &y], out, kernel)
}

/// Returns `n` elements from `start` on; a single element is repeated into `repeated`.
fn piece<'a, T: Element>(xs: &'a [T], repeated: &'a mut [T], start: usize, n: usize) -> &'a [T] {
    match xs {
        [x] => {
            repeated[..n].fill(*x);
            &repeated[..n]
        }
        xs => &xs[start..start + n],
    }
}

/// Returns the fault of the first of `n` elements that divides by 0.
fn check<T: Number + PartialOrd>(
    xs: &[T],
    ys: &[T],
    n: usize,
    divides: Divides,
) -> Result<(), KernelFault> {
    let at = |of: &[T], i: usize| if of.len() == 1 { of[0] } else { of[i] };
    let fails = |i: &usize| match divides {
        Divides::Always => at(ys, *i) == T::ZERO,
        Divides::IfNegative => at(xs, *i) == T::ZERO && at(ys, *i) < T::ZERO,
    };
    match (0..n).find(fails) {
        None => Ok(()),
        Some(element) => Err(KernelFault::DivisionByZero { element }),
    }
}
