use super::betainc::STEP;
use super::betainc_dab::next;
use super::gammainc_da::order;
use super::{Count, Laws, Many, ManyRule, OpFacts};
use crate::{Builder, Eqn, Op, Var};
use gradloom_maths::beta_density;

many_fns! { |x, y, z, w| beta_density::<A, _>(x, y, z, w) }

/// `beta_density a, b, x, n`: the derivative in `a` and `b` of the slope of `betainc` in `x`.
///
/// The slope is `p = x^(a - 1) (1 - x)^(b - 1) / B(a, b)`, and `n = i + 1024 j` is as in `betainc_dab`.
// dz = da p(i + 1, j) + db p(i, j + 1)
//    + dx (((a - 1) / x - (b - 1) / (1 - x)) p(i, j) + i / x p(i - 1, j) - j / (1 - x) p(i, j - 1))
pub(super) static OP: Many = Many {
    name: "beta_density",
    fns: FNS,
    rules: &[
        ManyRule::Tangent(|b, eqn, da| next(b, eqn, da, 1.0)),
        ManyRule::Tangent(|b, eqn, db| next(b, eqn, db, STEP)),
        ManyRule::Tangent(|b, eqn, dx| {
            let slope = slope(b, eqn);
            b.mul(dx, slope)
        }),
        ManyRule::Rounded,
    ],
    methods: &[],
    count: Count::each(100, 8),
    facts: OpFacts::ELEMENTWISE,
    laws: Laws::new(
        (0.55, 0.85),
        &[
            "(a: f64[2, 3], b: f64[2, 3], x: f64[2, 3], n: f64[]) { y = beta_density a, b, x, n return y }",
            "(a: f64[], b: f64[3], x: f64[2, 1], n: f64[1]) { y = beta_density a, b, x, n return y }",
            "(a: f64[0], b: f64[], x: f64[1], n: f64[]) { y = beta_density a, b, x, n return y }",
        ],
    ),
};

/// Emits the derivative in `x`.
fn slope(b: &mut Builder, eqn: &Eqn) -> Var {
    let (p, q, x, n) = (eqn.args[0], eqn.args[1], eqn.args[2], order(b, eqn));
    let one = b.scalar(1.0, x);
    let rest = b.sub(one, x);
    let [left, right] = [(p, x), (q, rest)].map(|(power, base)| {
        let less = b.sub(power, one);
        b.div(less, base)
    });
    let factor = b.sub(left, right);
    let whole = b.mul(factor, eqn.out());
    // The orders in a and in b
    let step = b.scalar(STEP, n);
    let quotient = b.div(n, step);
    let j = b.unary(Op::Floor, quotient);
    let of_b = b.mul(j, step);
    let i = b.sub(n, of_b);
    let [left, right] = [(i, 1.0, x), (j, STEP, rest)].map(|(count, step, base)| {
        let one = b.scalar(1.0, n);
        let step = b.scalar(step, n);
        // An order 0 is not lowered, and counts 0 times.
        let by = b.binary(Op::Minimum, count, one);
        let by = b.mul(by, step);
        let less = b.sub(n, by);
        let before = b.emit(Op::BetaDensity, &[], &[p, q, x, less]);
        let share = b.div(count, base);
        b.mul(share, before)
    });
    let change = b.sub(left, right);
    b.add(whole, change)
}
