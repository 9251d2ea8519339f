use super::{Binary, BinaryRule, Count, OpFacts};
use crate::{Builder, Op, Var};
use gradloom_maths::log;

binary_fns! { |x, y| if x == 0.0 && !y.is_nan() { 0.0 } else { x * log::<A, _>(y) } }

// dz = dx log(y) + dy x / y
pub(super) static OP: Binary = Binary {
    name: "xlogy",
    fns: FNS,
    rule: BinaryRule {
        left: |b, eqn, dx| {
            let log = b.unary(Op::Log, eqn.args[1]);
            b.mul(dx, log)
        },
        right: |b, eqn, dy| {
            let slope = quotient(b, eqn.args[0], eqn.args[1]);
            b.mul(dy, slope)
        },
        transpose: None,
    },
    count: Count::each(2, 1),
    facts: OpFacts::ELEMENTWISE,
    domain: (0.5, 2.0),
};

/// Emits `x / y`, and 0 for `0 / 0`.
pub(super) fn quotient(b: &mut Builder, x: Var, y: Var) -> Var {
    let zero = b.scalar(0.0, x);
    let one = b.scalar(1.0, x);
    let [no_x, no_y] = [x, y].map(|operand| b.binary(Op::Eq, operand, zero));
    let undefined = b.binary(Op::BitAnd, no_x, no_y);
    let divisor = b.select(undefined, one, y);
    b.div(x, divisor)
}
