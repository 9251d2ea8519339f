use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::softplus;

unary_fns! { |x| -softplus::<A, _>(-x) }

pub(super) static OP: Unary = Unary {
    name: "log_sigmoid",
    fns: FNS,
    // dy = dx sigmoid(-x)
    rule: UnaryRule::Factor(|b, x, _| {
        let minus = b.neg(x);
        b.unary(Op::Sigmoid, minus)
    }),
    count: Count::each(1, 2),
    facts: OpFacts::ELEMENTWISE.range(|of| of.x().positive().negated()),
    domain: (-3.0, 3.0),
};
