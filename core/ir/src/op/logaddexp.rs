use super::{Binary, BinaryRule, Count, OpFacts};
use crate::{Builder, Op, Var};
use gradloom_maths::logaddexp;

binary_fns! { |x, y| logaddexp::<A, _>(x, y) }

// dz = dx sigmoid(x - y) + dy sigmoid(y - x)
pub(super) static OP: Binary = Binary {
    name: "logaddexp",
    fns: FNS,
    rule: BinaryRule {
        left: |b, eqn, dx| share(b, eqn.args[0], eqn.args[1], dx),
        right: |b, eqn, dy| share(b, eqn.args[1], eqn.args[0], dy),
        transpose: None,
    },
    count: Count::each(3, 2),
    facts: OpFacts::ELEMENTWISE,
    domain: (-2.0, 2.0),
};

/// Emits `d sigmoid(x - other)`. Equal infinite operands have equal shares.
fn share(b: &mut Builder, x: Var, other: Var, d: Var) -> Var {
    let zero = b.scalar(0.0, x);
    let tie = b.binary(Op::Eq, x, other);
    let infinite = b.unary(Op::IsInfinite, x);
    let undefined = b.binary(Op::BitAnd, tie, infinite);
    let difference = b.sub(x, other);
    let difference = b.select(undefined, zero, difference);
    let share = b.unary(Op::Sigmoid, difference);
    b.mul(d, share)
}
