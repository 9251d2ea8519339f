use super::{Count, Equal, Linearity, OpFacts, Unary, UnaryRule};

unary_fns! { |x| -x, int |x| x.wrapping_neg() }

pub(super) static OP: Unary = Unary {
    name: "neg",
    fns: FNS,
    rule: UnaryRule::Linear,
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE
        .linear(Linearity::Each(&[0]))
        .cheap()
        .exact()
        .equal(Equal::Twice)
        .range(|of| of.x().negated()),
    domain: (-2.0, 2.0),
};
