use super::{Binary, BinaryRule, Count, Equal, Linearity, OpFacts, TermSign};

binary_fns! { |x, y| x + y, int |x, y| x.wrapping_add(y) }

pub(super) static OP: Binary = Binary {
    name: "add",
    fns: FNS,
    // dz = dx + dy
    rule: BinaryRule {
        left: |_, _, dx| dx,
        right: |_, _, dy| dy,
        transpose: Some(|_, _, ct, _| ct),
    },
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE
        .linear(Linearity::From(0))
        .cheap()
        .exact()
        // x + (-0) = x, also for zeros of both signs.
        .equal(Equal::Neutral([Some(-0.0), Some(-0.0)]))
        .terms([TermSign::Plus, TermSign::Plus])
        .range(|of| of.x().plus(of.y())),
    domain: (-2.0, 2.0),
};
