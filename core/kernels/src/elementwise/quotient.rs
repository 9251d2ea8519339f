//! Integer division, remainders and powers, which fail if the divisor is 0.
//!
//! They are tasks of their own, because a group cannot fail. With a constant divisor, as in `n /
//! 2`, they cannot fail and are members of groups.

use crate::memory::element::Element;
use crate::memory::fault::KernelFault;
use crate::simd::level::level;
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
        let run = run.get(level());
        let (mut x_piece, mut y_piece) = ([T::ZERO; PIECE], [T::ZERO; PIECE]);
        for (i, zs) in zs.chunks_mut(PIECE).enumerate() {
            let (start, n) = (i * PIECE, zs.len());
            let x = piece(xs, &mut x_piece, start, n);
            let y = piece(ys, &mut y_piece, start, n);
            // SAFETY: the CPU has the level.
            unsafe { run(x, y, zs) };
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
    if matches!(divides, DivisionCondition::Always) {
        // Without an early exit, the loop compares vectors.
        let mut any = false;
        for y in ys {
            any |= *y == T::ZERO;
        }
        if !any {
            return Ok(());
        }
    }
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

#[cfg(test)]
mod tests {
    use super::quotient;
    use crate::memory::data::{Data, DataMut};
    use crate::simd::level::tests::at_each_level;
    use gradloom_ir::{DType, Op};

    #[test]
    fn remainders_of_integers_are_those_of_the_operator_at_each_level() {
        const N: usize = 1000;
        let mut state = 88_172_645_463_325_252u64;
        let mut random = |i: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Pieces of small numbers, and pieces with large ones.
            let number = state as i64 >> [20, 40, (i * 7) % 63][i / 50 % 3];
            [number, 1, -1, i64::MIN, i64::MAX][if i.is_multiple_of(97) { i % 5 } else { 0 }]
        };
        let xs: Vec<i64> = (0..N).map(&mut random).collect();
        let ys: Vec<i64> = (0..N).map(|i| random(i + 13)).collect();
        let rem = |x: i64, y: i64| x.wrapping_rem(y);
        let mod_floor = |x: i64, y: i64| {
            let rest = x.wrapping_rem(y);
            if rest != 0 && (rest < 0) != (y < 0) {
                rest + y
            } else {
                rest
            }
        };
        let not_0 = |y: i64| if y == 0 { 7 } else { y };
        type Rule<'a> = &'a dyn Fn(i64, i64) -> i64;
        for (op, rule) in [(Op::Rem, &rem as Rule<'_>), (Op::ModFloor, &mod_floor)] {
            let ys: Vec<i64> = ys.iter().map(|y| not_0(*y)).collect();
            let want: Vec<i64> = xs.iter().zip(&ys).map(|(x, y)| rule(*x, *y)).collect();
            let [short_xs, short_ys] = [&xs, &ys].map(|of| {
                let short = of.iter().map(|x| not_0(i64::from(*x as i32)) as i32);
                short.collect::<Vec<i32>>()
            });
            let pairs = short_xs.iter().zip(&short_ys);
            let short = pairs.map(|(x, y)| rule(i64::from(*x), i64::from(*y)) as i32);
            let short: Vec<i32> = short.collect();
            at_each_level(|level| {
                let mut found = vec![9; N];
                quotient(op, DType::I64)(
                    &[Data::I64(&xs), Data::I64(&ys)],
                    &mut [DataMut::I64(&mut found)],
                )
                .unwrap();
                assert_eq!(found, want, "{op:?} at {level:?}");
                let mut found = vec![9; N];
                quotient(op, DType::I32)(
                    &[Data::I32(&short_xs), Data::I32(&short_ys)],
                    &mut [DataMut::I32(&mut found)],
                )
                .unwrap();
                assert_eq!(found, short, "{op:?} at {level:?}");
            });
        }
    }
}
