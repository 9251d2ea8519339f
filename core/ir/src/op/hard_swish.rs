use super::{Count, OpFacts, Unary, UnaryRule, special};
use crate::Op;

unary_fns! { |x| if x <= -3.0 { 0.0 } else if x > 3.0 { x } else { x * ((x + 3.0) / 6.0) } }

pub(super) static OP: Unary = Unary {
    name: "hard_swish",
    fns: FNS,
    // With h = hard_sigmoid(x): dy = dx (h + x h').
    rule: UnaryRule::Factor(|b, x, _| {
        let h = b.unary(Op::HardSigmoid, x);
        let slope = special::hard_slope(b, x);
        let bend = b.mul(x, slope);
        b.add(h, bend)
    }),
    count: Count::each(4, 0),
    facts: OpFacts::ELEMENTWISE.cheap(),
    domain: (-2.0, 2.0),
};
