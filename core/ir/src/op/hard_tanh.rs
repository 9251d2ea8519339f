use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;

unary_fns! { |x| x.clamp(-1.0, 1.0) }

pub(super) static OP: Unary = Unary {
    name: "hard_tanh",
    fns: FNS,
    // dy = |x| <= 1 ? dx : 0
    rule: UnaryRule::Tangent(|b, x, _, dx| {
        let zero = b.scalar(0.0, x);
        let one = b.scalar(1.0, x);
        let size = b.unary(Op::Abs, x);
        let inside = b.binary(Op::Le, size, one);
        b.select(inside, dx, zero)
    }),
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE.cheap().range(|of| of.x().bounded()),
    domain: (-0.9, 0.9),
};
