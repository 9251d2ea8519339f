use super::{Count, Unary, UnaryRule};

unary_fns! { |x| 1.0 / x }

pub(super) static OP: Unary = Unary {
    name: "reciprocal",
    fns: FNS,
    // dy = -dx y^2
    rule: UnaryRule::Factor(|b, _, y| {
        let y2 = b.mul(y, y);
        b.neg(y2)
    }),
    count: Count::FLOP,
    domain: (0.5, 2.0),
};
