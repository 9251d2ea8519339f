use super::{Binary, BinaryRule, Count};

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
    domain: (-2.0, 2.0),
};
