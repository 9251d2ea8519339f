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

/// Emits `zeroth - y / x`, or the limit 1/2 at 0.
pub(super) fn slope(b: &mut Builder, x: Var, y: Var, zeroth: Var) -> Var {
    let (zero, one, half) = (b.scalar(0.0, x), b.scalar(1.0, x), b.scalar(0.5, x));
    let at_zero = b.binary(Op::Eq, x, zero);
    let divisor = b.select(at_zero, one, x);
    let quotient = b.div(y, divisor);
    let slope = b.sub(zeroth, quotient);
    b.select(at_zero, half, slope)
}
