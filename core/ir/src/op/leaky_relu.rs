use super::{Binary, BinaryRule, Count, OpFacts, special};
use crate::Op;

binary_fns! { |x, y| if x >= 0.0 { x } else { y * x } }

pub(super) static OP: Binary = Binary {
    name: "leaky_relu",
    fns: FNS,
    rule: BinaryRule {
        left: |b, eqn, dx| {
            // x >= 0 ? dx : dx slope
            let zero = b.scalar(0.0, eqn.args[0]);
            let keeps = b.binary(Op::Ge, eqn.args[0], zero);
            let part = b.mul(dx, eqn.args[1]);
            b.select(keeps, dx, part)
        },
        right: |b, eqn, dy| {
            // dslope min(x, 0)
            let (below, _) = special::negative_part(b, eqn.args[0]);
            b.mul(dy, below)
        },
        transpose: None,
    },
    count: Count::each(2, 0),
    facts: OpFacts::ELEMENTWISE.cheap(),
    domain: (0.4, 2.0),
};
