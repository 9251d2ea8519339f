use super::{Binary, BinaryRule, Count};

binary_fns! { |x, y| x / y,
int |x, y| if y == 0 { 0 } else { x.wrapping_div(y) } }

/// `x / y`. Integer division rounds towards zero, and the smallest integer divided by -1 is itself.
///
/// Division of an integer by zero is an error at run time, before the loop runs: the loop cannot
/// report it.
pub(super) static OP: Binary = Binary {
    name: "div",
    fns: FNS,
    // dz = dx / y - z dy / y. It is linear in the numerator.
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
