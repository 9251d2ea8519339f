use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;

unary_fns! { |x| if x.is_infinite() { x.signum() } else { x / (1.0 + x.abs()) } }

pub(super) static OP: Unary = Unary {
    name: "softsign",
    fns: FNS,
    // dy = dx / (1 + |x|)^2
    rule: UnaryRule::Factor(|b, x, _| {
        let one = b.scalar(1.0, x);
        let size = b.unary(Op::Abs, x);
        let sum = b.add(one, size);
        let square = b.mul(sum, sum);
        b.unary(Op::Reciprocal, square)
    }),
    count: Count::each(2, 0),
    facts: OpFacts::ELEMENTWISE.cheap().range(|of| of.x().bounded()),
    domain: (0.3, 3.0),
};
