use super::{Binary, BinaryRule, Count, OpFacts};
use crate::{Builder, Eqn, Op, Var};
use gradloom_maths::gammainc;

binary_fns! { |x, y| gammainc::<A, _>(x, y) }

// dz = da gammainc_da(a, x, 1) + dx gamma_density(a, x, 0)
pub(super) static OP: Binary = Binary {
    name: "gammainc",
    fns: FNS,
    rule: BinaryRule {
        left: |b, eqn, da| {
            let slope = slope(b, eqn, Op::GammaincDa, 1.0);
            b.mul(da, slope)
        },
        right: |b, eqn, dx| {
            let slope = slope(b, eqn, Op::GammaDensity, 0.0);
            b.mul(dx, slope)
        },
        transpose: None,
    },
    count: Count::each(200, 4),
    facts: OpFacts::ELEMENTWISE,
    domain: (0.5, 3.0),
};

/// Emits an op of both operands and an order.
pub(super) fn slope(b: &mut Builder, eqn: &Eqn, op: Op, order: f64) -> Var {
    let order = b.scalar(order, eqn.out());
    b.emit(op, &[], &[eqn.args[0], eqn.args[1], order])
}
