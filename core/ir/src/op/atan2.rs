use super::{Binary, BinaryRule, Count, OpFacts, Range};
use crate::{Builder, Eqn, Var};
use gradloom_maths::atan2;

binary_fns! { |x, y| atan2::<A, _>(x, y) }

// With z = atan2(x, y): dz = (dx y - x dy) / (x^2 + y^2).
pub(super) static OP: Binary = Binary {
    name: "atan2",
    fns: FNS,
    rule: BinaryRule {
        left: |b, eqn, dx| slope(b, eqn, dx, eqn.args[1]),
        right: |b, eqn, dy| {
            let part = slope(b, eqn, dy, eqn.args[0]);
            b.neg(part)
        },
        transpose: None,
    },
    count: Count::TRANSCENDENTAL,
    facts: OpFacts::ELEMENTWISE.range(|_| Range::UNKNOWN.bounded()),
    domain: (0.5, 2.0),
};

/// Emits `d other / (x^2 + y^2)`.
fn slope(b: &mut Builder, eqn: &Eqn, d: Var, other: Var) -> Var {
    let [x2, y2] = [0, 1].map(|i| b.mul(eqn.args[i], eqn.args[i]));
    let sum = b.add(x2, y2);
    let part = b.div(other, sum);
    b.mul(d, part)
}
