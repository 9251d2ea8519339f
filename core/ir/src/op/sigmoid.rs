use super::{Count, Unary, UnaryRule};

unary_fns! { |x| {
    // exp(-|x|) never overflows, so either side keeps its digits.
    let e = (-x.abs()).exp();
    if x >= 0.0 {
        1.0 / (1.0 + e)
    } else {
        e / (1.0 + e)
    }
} }

pub(super) static OP: Unary = Unary {
    name: "sigmoid",
    fns: FNS,
    // dy = dx y (1 - y)
    rule: UnaryRule::Factor(|b, _, y| {
        let one = b.scalar(1.0, y);
        let rest = b.sub(one, y);
        b.mul(y, rest)
    }),
    count: Count::each(3, 1),
    domain: (-3.0, 3.0),
};
