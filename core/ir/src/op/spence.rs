use super::{Count, OpFacts, Unary, UnaryRule};
use crate::Op;
use gradloom_maths::spence;

unary_fns! { |x| spence::<A, _>(x) }

/// Number of terms of the series of `-log(1 + t) / t` for `|t| < 0.1`.
const TERMS: u32 = 20;

pub(super) static OP: Unary = Unary {
    name: "spence",
    fns: FNS,
    // dy = dx log(x) / (1 - x)
    rule: UnaryRule::Factor(|b, x, _| {
        let [zero, one, bound] = [0.0, 1.0, 0.1].map(|number| b.scalar(number, x));
        let t = b.sub(x, one);
        let distance = b.unary(Op::Abs, t);
        let near = b.binary(Op::Lt, distance, bound);
        // At 1 the quotient is undefined, and beside 1 its derivatives lose all digits.
        let small = b.select(near, t, zero);
        let mut series = b.scalar(-1.0 / f64::from(TERMS), x);
        for n in (1..TERMS).rev() {
            let term = b.scalar(-1.0 / f64::from(n), x);
            let rest = b.mul(small, series);
            series = b.sub(term, rest);
        }
        let two = b.scalar(2.0, x);
        let far = b.select(near, two, x);
        let log = b.unary(Op::Log, far);
        let below = b.sub(one, far);
        let quotient = b.div(log, below);
        b.select(near, series, quotient)
    }),
    count: Count::each(60, 4),
    facts: OpFacts::ELEMENTWISE.steep_unless(|of, _| of.x().is_positive(), 1.0),
    domain: (0.5, 3.0),
};
