//! Integer division, remainders and powers, which fail if the divisor is 0.
//!
//! They are tasks of their own, because a group cannot fail. With a constant divisor, as in `n /
//! 2`, they cannot fail and are members of groups.

use crate::memory::element::Element;
use crate::memory::fault::KernelFault;
use crate::simd::number::Number;
use crate::task::Prepared;
use gradloom_ir::op::{BinaryLoop, Eval};
use gradloom_ir::{DType, Op};

/// Computes `x / y`, a remainder or `x^y` of integers, element by element.
///
/// An operand has the elements of the result in row-major order, or a single one.
pub fn quotient(op: Op, dtype: DType) -> Prepared {
    const TAKEN: &str = "only quotients, remainders and powers of integers can fail";
    let Eval::Binary(fns) = op.def().eval() else {
        unreachable!("{TAKEN}");
    };
    let divides = match op {
        Op::Pow => DivisionCondition::IfNegative,
        _ => DivisionCondition::Always,
    };
    match dtype {
        DType::I32 => typed(fns.i32.expect(TAKEN), divides),
        DType::I64 => typed(fns.i64.expect(TAKEN), divides),
        _ => unreachable!("{TAKEN}"),
    }
}

/// Condition under which an element divides.
#[derive(Clone, Copy)]
enum DivisionCondition {
    /// `div` and remainders: divides by the second operand.
    Always,
    /// `pow`: divides by the first operand if the second is negative.
    IfNegative,
}

fn typed<T: Number + PartialOrd>(run: BinaryLoop<T>, divides: DivisionCondition) -> Prepared {
    Box::new(move |args, outs| {
        let (xs, ys) = (T::slice(args[0]), T::slice(args[1]));
        let zs = T::slice_mut(&mut outs[0]);
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
    })
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
    divides: DivisionCondition,
) -> Result<(), KernelFault> {
    let at = |of: &[T], i: usize| if of.len() == 1 { of[0] } else { of[i] };
    let fails = |i: &usize| match divides {
        DivisionCondition::Always => at(ys, *i) == T::ZERO,
        DivisionCondition::IfNegative => at(xs, *i) == T::ZERO && at(ys, *i) < T::ZERO,
    };
    match (0..n).find(fails) {
        None => Ok(()),
        Some(element) => Err(KernelFault::DivisionByZero { element }),
    }
}
