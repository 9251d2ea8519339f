use super::{Count, OpFacts, Unary, UnaryRule};

unary_fns! { |x| if x > 0.0 {
    1.0
} else if x < 0.0 {
    -1.0
} else {
    x
},
int |x| x.signum() }

/// -1, 0 or 1. A zero keeps its sign, and NaN stays NaN.
pub(super) static OP: Unary = Unary {
    name: "sign",
    fns: FNS,
    rule: UnaryRule::Zero("`sign` is constant on either side of zero"),
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE.cheap().range(|of| of.x().bounded()),
    domain: (-2.0, 2.0),
};
