use super::{Binary, BinaryRule, Count, OpFacts, special};
use crate::Op;
use gradloom_maths::expm1;

binary_fns! { |x, y| if x > 0.0 { x } else { y * expm1::<A, _>(x) } }

pub(super) static OP: Binary = Binary {
    name: "elu",
    fns: FNS,
    rule: BinaryRule {
        left: |b, eqn, dx| {
            // x > 0 ? dx : dx alpha e^x
            let (below, positive) = special::negative_part(b, eqn.args[0]);
            let exp = b.unary(Op::Exp, below);
            let part = b.mul(dx, eqn.args[1]);
            let part = b.mul(part, exp);
            b.select(positive, dx, part)
        },
        right: |b, eqn, dy| {
            // x > 0 ? 0 : dalpha (e^x - 1)
            let (below, _) = special::negative_part(b, eqn.args[0]);
            let slope = b.unary(Op::Expm1, below);
            b.mul(dy, slope)
        },
        transpose: None,
    },
    count: Count::each(2, 1),
    facts: OpFacts::ELEMENTWISE,
    domain: (0.4, 2.0),
};
