use super::{Binary, BinaryRule, Count, Equal, Linearity, OpFacts};

binary_fns! { |x, y| x * y, int |x, y| x.wrapping_mul(y) }

pub(super) static OP: Binary = Binary {
    name: "mul",
    fns: FNS,
    // dz = dx y + x dy. It is linear in each operand for a fixed other operand.
    rule: BinaryRule {
        left: |b, eqn, dx| b.mul(dx, eqn.args[1]),
        right: |b, eqn, dy| b.mul(eqn.args[0], dy),
        transpose: Some(|b, eqn, ct, operand| match operand {
            0 => b.mul(ct, eqn.args[1]),
            _ => b.mul(eqn.args[0], ct),
        }),
    },
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE
        .linear(Linearity::Each(&[0, 1]))
        .cheap()
        .exact()
        .equal(Equal::Neutral([Some(1.0), Some(1.0)]))
        .range(|of| match of.eqn.args[0] == of.eqn.args[1] {
            true => of.x().magnitude(),
            false => of.x().times(of.y()),
        }),
    domain: (-2.0, 2.0),
};
