use super::i1::slope;
use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::i1e;

unary_fns! { |x| i1e::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "i1e",
    fns: FNS,
    // dy = dx (i0e(x) - y / x - sign(x) y)
    rule: UnaryRule::Factor(|b, x, y| {
        let zeroth = b.unary(Op::I0e, x);
        let slope = slope(b, x, y, zeroth);
        let sign = b.unary(Op::Sign, x);
        let shrunk = b.mul(sign, y);
        b.sub(slope, shrunk)
    }),
    count: Count::each(70, 2),
    facts: OpFacts::ELEMENTWISE,
    domain: (-3.0, 3.0),
};
