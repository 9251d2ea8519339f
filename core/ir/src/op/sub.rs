use super::{Binary, BinaryRule, Count, Equal, Linearity, OpFacts, TermSign};

binary_fns! { |x, y| x - y, int |x, y| x.wrapping_sub(y) }

pub(super) static OP: Binary = Binary {
    name: "sub",
    fns: FNS,
    // dz = dx - dy
    rule: BinaryRule {
        left: |_, _, dx| dx,
        right: |b, _, dy| b.neg(dy),
        transpose: Some(|b, _, ct, operand| if operand == 0 { ct } else { b.neg(ct) }),
    },
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE
        .linear(Linearity::From(0))
        .cheap()
        .exact()
        // x - (+0) = x, also for zeros of both signs.
        .equal(Equal::Neutral([None, Some(0.0)]))
        .terms([TermSign::Plus, TermSign::Minus])
        .range(|of| of.x().plus(of.y().negated())),
    domain: (-2.0, 2.0),
};
