use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;

unary_fns! { |x| x.abs(), int |x| x.wrapping_abs() }

pub(super) static OP: Unary = Unary {
    name: "abs",
    fns: FNS,
    // dy = dx sign(x), so 0 at 0.
    rule: UnaryRule::Factor(|b, x, _| b.unary(Op::Sign, x)),
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE
        .cheap()
        .exact()
        .range(|of| of.x().magnitude()),
    domain: (-2.0, 2.0),
};
