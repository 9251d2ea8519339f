use super::{Binary, BinaryRule, Count};

binary_fns! { |x, y| x / y,
int |x, y| if y == 0 { 0 } else { x.wrapping_div(y) } }

/// Integers: towards zero, and the least one by -1 is itself, as `wrapping_div`. A division of an integer by zero is an error when
/// the value is computed; the loop, which has no way to say so, never sees one.
pub(super) static OP: Binary = Binary {
    name: "div",
    fns: FNS,
    // dz = dx / y - z dy / y; linear in the numerator.
    rule: BinaryRule {
        left: |b, eqn, dx| b.div(dx, eqn.args[1]),
        right: |b, eqn, dy| {
            let ratio = b.div(eqn.out(), eqn.args[1]);
            let part = b.mul(dy, ratio);
            b.neg(part)
        },
        transpose: Some(|b, eqn, ct, _| b.div(ct, eqn.args[1])),
    },
    count: Count::FLOP,
    domain: (0.5, 2.0),
};
