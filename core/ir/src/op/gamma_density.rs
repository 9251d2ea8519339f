use super::gammainc_da::{lowered, order, raised};
use super::{Count, Laws, Many, ManyRule, OpFacts};
use crate::Op;
use gradloom_maths::gamma_density;

many_fns! { |x, y, z| gamma_density::<A, _>(x, y, z) }

/// `gamma_density a, x, n`: the derivative of order `n` in `a` of the slope of `gammainc` in `x`.
///
/// The slope is `p = x^(a - 1) exp(-x) / gamma(a)`.
// dz = da p(n + 1) + dx (((a - 1) / x - 1) p(n) + n / x p(n - 1))
pub(super) static OP: Many = Many {
    name: "gamma_density",
    fns: FNS,
    rules: &[
        ManyRule::Tangent(|b, eqn, da| {
            let next = raised(b, eqn, 1.0);
            let slope = b.emit(Op::GammaDensity, &[], &[eqn.args[0], eqn.args[1], next]);
            b.mul(da, slope)
        }),
        ManyRule::Tangent(|b, eqn, dx| {
            let (a, x, n) = (eqn.args[0], eqn.args[1], order(b, eqn));
            let one = b.scalar(1.0, x);
            let power = b.sub(a, one);
            let power = b.div(power, x);
            let factor = b.sub(power, one);
            let whole = b.mul(factor, eqn.out());
            let less = lowered(b, eqn);
            let before = b.emit(Op::GammaDensity, &[], &[a, x, less]);
            let share = b.div(n, x);
            let rest = b.mul(share, before);
            let slope = b.add(whole, rest);
            b.mul(dx, slope)
        }),
        ManyRule::Rounded,
    ],
    methods: &[],
    count: Count::each(50, 5),
    facts: OpFacts::ELEMENTWISE,
    laws: Laws::new(
        (0.6, 1.4),
        &[
            "(a: f64[2, 3], x: f64[2, 3], n: f64[]) { y = gamma_density a, x, n return y }",
            "(a: f64[3], x: f64[2, 1], n: f64[1]) { y = gamma_density a, x, n return y }",
            "(a: f64[0], x: f64[], n: f64[]) { y = gamma_density a, x, n return y }",
        ],
    ),
};
