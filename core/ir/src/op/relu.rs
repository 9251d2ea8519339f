use super::{Count, OpFacts, Range, Unary, UnaryRule};
use crate::Op;

unary_fns! { |x| if x <= 0.0 { 0.0 } else { x }, int |x| x.max(0) }

/// `max(x, 0)`. NaN stays NaN.
pub(super) static OP: Unary = Unary {
    name: "relu",
    fns: FNS,
    // dy = y > 0 ? dx : 0. The derivative at 0 is 0. Needs y only, so x is not a residual.
    rule: UnaryRule::Tangent(|b, _, y, dx| {
        let zero = b.scalar(0.0, y);
        let passes = b.binary(Op::Gt, y, zero);
        b.select(passes, dx, zero)
    }),
    count: Count::FLOP,
    facts: OpFacts::ELEMENTWISE.rises().cheap().range(|of| Range {
        at_least_0: true,
        not_0: of.x().is_positive(),
        ..of.x()
    }),
    domain: (-2.0, 2.0),
};
