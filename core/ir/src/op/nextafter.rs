use super::{Binary, BinaryRule, Count, OpFacts};

binary_fns! { |x, y| if x < y { x.next_up() } else if x > y { x.next_down() } else if x == y { y } else { x + y } }

/// The number beside `x` on the way to `y`.
// dz = dx, and the slope in y is 0
pub(super) static OP: Binary = Binary {
    name: "nextafter",
    fns: FNS,
    rule: BinaryRule {
        left: |_, _, dx| dx,
        right: |b, eqn, dy| {
            let zero = b.zeros_like(eqn.out());
            b.mul(dy, zero)
        },
        transpose: None,
    },
    count: Count::each(4, 0),
    facts: OpFacts::ELEMENTWISE,
    domain: (-2.0, 2.0),
};
