use super::i1::{i1_over_x, near_zero};
use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::i1e;

unary_fns! { |x| i1e::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "i1e",
    fns: FNS,
    // dy = dx (i0e(x) - y / x - sign(x) y)
    rule: UnaryRule::Factor(|b, x, y| {
        let zeroth = b.unary(Op::I0e, x);
        let (small, divisor) = near_zero(b, x);
        let quotient = b.div(y, divisor);
        let series = i1_over_x(b, x);
        let size = b.unary(Op::Abs, x);
        let size = b.neg(size);
        let scale = b.unary(Op::Exp, size);
        let series = b.mul(scale, series);
        let quotient = b.select(small, series, quotient);
        let slope = b.sub(zeroth, quotient);
        let sign = b.unary(Op::Sign, x);
        let shrunk = b.mul(sign, y);
        b.sub(slope, shrunk)
    }),
    count: Count::each(70, 2),
    facts: OpFacts::ELEMENTWISE,
    domain: (-3.0, 3.0),
};
