use super::{Count, OpFacts, Unary, UnaryRule};
use crate::{Builder, Op, Var};
use gradloom_maths::i1;

unary_fns! { |x| i1::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "i1",
    fns: FNS,
    // dy = dx (I0(x) - y / x)
    rule: UnaryRule::Factor(|b, x, y| {
        let zeroth = b.unary(Op::I0, x);
        slope(b, x, y, zeroth)
    }),
    count: Count::each(70, 2),
    facts: OpFacts::ELEMENTWISE,
    domain: (-3.0, 3.0),
};

/// Emits `zeroth - y / x`, where `y` is `I1(x)`.
///
/// If `y` is infinite, so is `zeroth`, and the quotient is left out.
fn slope(b: &mut Builder, x: Var, y: Var, zeroth: Var) -> Var {
    let (small, divisor) = near_zero(b, x);
    let zero = b.scalar(0.0, x);
    let infinite = b.unary(Op::IsInfinite, y);
    let y = b.select(infinite, zero, y);
    let quotient = b.div(y, divisor);
    let series = i1_over_x(b, x);
    let quotient = b.select(small, series, quotient);
    b.sub(zeroth, quotient)
}

/// Emits whether `x` is from -1 to 1, and `x`, or 1 if it is.
pub(super) fn near_zero(b: &mut Builder, x: Var) -> (Var, Var) {
    let one = b.scalar(1.0, x);
    let size = b.unary(Op::Abs, x);
    let small = b.binary(Op::Lt, size, one);
    (small, b.select(small, one, x))
}

/// Emits `I1(x) / x` for `x` from -1 to 1, by its power series in `x^2 / 4` with the terms
/// `1 / (2 k! (k + 1)!)`.
///
/// Its derivatives are right at 0 and near it, where those of a quotient lose all digits.
pub(super) fn i1_over_x(b: &mut Builder, x: Var) -> Var {
    const TERMS: i32 = 12;
    let quarter = b.scalar(0.25, x);
    let x2 = b.mul(x, x);
    let u = b.mul(x2, quarter);
    // The sum by Horner's rule, in which each term is the one before, divided by k (k + 1).
    let one = b.scalar(1.0, x);
    let terms = (1..TERMS).rev().fold(one, |sum, k| {
        let ratio = b.scalar(1.0 / f64::from(k * (k + 1)), x);
        let next = b.mul(u, ratio);
        let next = b.mul(next, sum);
        b.add(one, next)
    });
    let half = b.scalar(0.5, x);
    b.mul(half, terms)
}
