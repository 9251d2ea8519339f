use super::{Binary, BinaryRule, Count, Equal, Fails, Linearity, OpFacts, Range, Steep};

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
    facts: OpFacts::ELEMENTWISE
        .linear(Linearity::Each(&[0]))
        .cheap()
        .exact()
        .equal(Equal::Neutral([None, Some(1.0)]))
        .fails(Fails::IntegerBy(|divisor| divisor == 0.0))
        .range(|of| Range {
            bounded: of.x().bounded && of.y().bounded && of.y().not_0,
            ..of.x().times(of.y())
        })
        .steep(Steep {
            operand: 1,
            is_safe: |of, _| of.y().not_0,
            harmless: 1.0,
        }),
    domain: (0.5, 2.0),
};
