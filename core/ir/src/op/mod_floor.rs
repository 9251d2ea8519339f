use super::{Binary, BinaryRule, Count, Fails, OpFacts};
use crate::Op;

remainder_fns! {
    |rest, y| if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest },
    int |rest, y| if rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest }
}

/// `x - y floor(x / y)`: the sign is that of `y`.
///
/// Division of an integer by zero is an error at run time.
// dz = dx - dy floor(x / y)
pub(super) static OP: Binary = Binary {
    name: "mod_floor",
    fns: FNS,
    rule: BinaryRule {
        left: |_, _, dx| dx,
        right: |b, eqn, dy| {
            let quotient = b.div(eqn.args[0], eqn.args[1]);
            let whole = b.unary(Op::Floor, quotient);
            let part = b.mul(dy, whole);
            b.neg(part)
        },
        transpose: None,
    },
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE.fails(Fails::IntegerBy(|divisor| divisor == 0.0)),
    domain: (1.05, 1.95),
};
