use super::{Count, OpFacts, Range, Unary, UnaryRule};
use crate::Op;

unary_fns! { |x| x.clamp(0.0, 6.0) }

pub(super) static OP: Unary = Unary {
    name: "relu6",
    fns: FNS,
    // dy = 0 < y < 6 ? dx : 0. The derivative at both ends is 0.
    rule: UnaryRule::Tangent(|b, _, y, dx| {
        let zero = b.scalar(0.0, y);
        let six = b.scalar(6.0, y);
        let above = b.binary(Op::Gt, y, zero);
        let below = b.binary(Op::Lt, y, six);
        let dx = b.select(above, dx, zero);
        b.select(below, dx, zero)
    }),
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE.cheap().range(|of| Range {
        at_least_0: true,
        ..of.x().unknown().bounded()
    }),
    domain: (0.5, 3.0),
};
