use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::expi;

unary_fns! { |x| expi::<A, _>(x) }

pub(super) static OP: Unary = Unary {
    name: "expi",
    fns: FNS,
    // dy = dx exp(x) / x
    rule: UnaryRule::Factor(|b, x, _| {
        let exp = b.unary(Op::Exp, x);
        b.div(exp, x)
    }),
    count: Count::each(320, 5),
    facts: OpFacts::ELEMENTWISE.steep_unless(|of, _| of.x().is_positive(), 1.0),
    domain: (0.5, 3.0),
};
