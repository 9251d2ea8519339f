use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::ndtri;

/// `sqrt(2 pi)`
const SQRT_TAU: f64 = 2.5066282746310002;

unary_fns! { |x| ndtri::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "ndtri",
    fns: FNS,
    // dy = dx sqrt(2 pi) exp(y^2 / 2), infinite at both ends.
    rule: UnaryRule::Factor(|b, _, y| {
        let (scale, half) = (b.scalar(SQRT_TAU, y), b.scalar(0.5, y));
        let y2 = b.mul(y, y);
        let exponent = b.mul(half, y2);
        let exp = b.unary(Op::Exp, exponent);
        b.mul(scale, exp)
    }),
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE.steep_unless(|_, _| false, 0.0),
    domain: (0.1, 0.9),
};
