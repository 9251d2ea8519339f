use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::i0e;

unary_fns! { |x| i0e::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "i0e",
    fns: FNS,
    // dy = dx (i1e(x) - sign(x) y)
    rule: UnaryRule::Factor(|b, x, y| {
        let sign = b.unary(Op::Sign, x);
        let shrunk = b.mul(sign, y);
        let first = b.unary(Op::I1e, x);
        b.sub(first, shrunk)
    }),
    count: Count::each(70, 2),
    facts: OpFacts::ELEMENTWISE,
    domain: (-3.0, 3.0),
};
