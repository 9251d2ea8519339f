use super::{Count, OpFacts, Range, Unary, UnaryRule, special};

unary_fns! { |x| if x <= -3.0 { 0.0 } else if x > 3.0 { 1.0 } else { (x + 3.0) / 6.0 } }

pub(super) static OP: Unary = Unary {
    name: "hard_sigmoid",
    fns: FNS,
    // dy = |x| < 3 ? dx / 6 : 0
    rule: UnaryRule::Factor(|b, x, _| special::hard_slope(b, x)),
    count: Count::each(3, 0),
    facts: OpFacts::ELEMENTWISE.cheap().range(|of| Range {
        at_least_0: true,
        ..of.x().unknown().bounded()
    }),
    domain: (-2.0, 2.0),
};
