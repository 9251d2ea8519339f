use super::{Count, OpFacts, Range, Unary, UnaryRule};

unary_fns! { |x| x.trunc(), int |x| x }

pub(super) static OP: Unary = Unary {
    name: "trunc",
    fns: FNS,
    rule: UnaryRule::Zero("`trunc` is constant between its steps"),
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE.cheap().exact().range(|of| Range {
        not_0: false,
        ..of.x()
    }),
    domain: (-2.0, 2.0),
};
