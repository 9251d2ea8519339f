use super::{Binary, BinaryRule, Count, OpFacts, special};
use crate::Op;
use gradloom_maths::expm1;

binary_fns! { |x, y| if x > 0.0 { x } else { y * expm1::<A, _>(x / y) } }

pub(super) static OP: Binary = Binary {
    name: "celu",
    fns: FNS,
    rule: BinaryRule {
        left: |b, eqn, dx| {
            // x > 0 ? dx : dx e^(x / alpha)
            let (below, _) = special::negative_part(b, eqn.args[0]);
            let ratio = b.div(below, eqn.args[1]);
            let slope = b.unary(Op::Exp, ratio);
            b.mul(dx, slope)
        },
        right: |b, eqn, dy| {
            // With q = min(x, 0) / alpha: dalpha (e^q - 1 - q e^q).
            let (below, _) = special::negative_part(b, eqn.args[0]);
            let ratio = b.div(below, eqn.args[1]);
            let less = b.unary(Op::Expm1, ratio);
            let exp = b.unary(Op::Exp, ratio);
            let part = b.mul(ratio, exp);
            let slope = b.sub(less, part);
            b.mul(dy, slope)
        },
        transpose: None,
    },
    count: Count::each(2, 1),
    facts: OpFacts::ELEMENTWISE,
    domain: (0.4, 2.0),
};
