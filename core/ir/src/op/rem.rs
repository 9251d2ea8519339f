use super::{Binary, BinaryRule, Count, Fails, OpFacts};
use crate::Op;

remainder_fns! { |rest, _y| rest, int |rest, _y| rest }

/// `x - y trunc(x / y)`: the sign is that of `x`.
///
/// Division of an integer by zero is an error at run time.
// dz = dx - dy trunc(x / y)
pub(super) static OP: Binary = Binary {
    name: "rem",
    fns: FNS,
    rule: BinaryRule {
        left: |_, _, dx| dx,
        right: |b, eqn, dy| {
            let quotient = b.div(eqn.args[0], eqn.args[1]);
            let whole = b.unary(Op::Trunc, quotient);
            let part = b.mul(dy, whole);
            b.neg(part)
        },
        transpose: None,
    },
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE.fails(Fails::IntegerBy(|divisor| divisor == 0.0)),
    domain: (1.05, 1.95),
};
