use super::xlogy::quotient;
use super::{Binary, BinaryRule, Count, OpFacts};
use crate::Op;
use gradloom_maths::log1p;

binary_fns! { |x, y| if x == 0.0 && !y.is_nan() { 0.0 } else { x * log1p::<A, _>(y) } }

// dz = dx log(1 + y) + dy x / (1 + y)
pub(super) static OP: Binary = Binary {
    name: "xlog1py",
    fns: FNS,
    rule: BinaryRule {
        left: |b, eqn, dx| {
            let log = b.unary(Op::Log1p, eqn.args[1]);
            b.mul(dx, log)
        },
        right: |b, eqn, dy| {
            let (x, y) = (eqn.args[0], eqn.args[1]);
            let one = b.scalar(1.0, x);
            let sum = b.add(one, y);
            let slope = quotient(b, x, sum);
            b.mul(dy, slope)
        },
        transpose: None,
    },
    count: Count::each(2, 1),
    facts: OpFacts::ELEMENTWISE,
    domain: (-0.5, 2.0),
};
