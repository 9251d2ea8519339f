use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::exp1;

unary_fns! { |x| exp1::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "exp1",
    fns: FNS,
    // dy = -dx exp(-x) / x
    rule: UnaryRule::Factor(|b, x, _| {
        let negative = b.unary(Op::Neg, x);
        let exp = b.unary(Op::Exp, negative);
        b.div(exp, negative)
    }),
    count: Count::each(320, 5),
    facts: OpFacts::ELEMENTWISE.steep_unless(|of, _| of.x().is_positive(), 1.0),
    domain: (0.5, 3.0),
};
