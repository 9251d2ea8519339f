use super::betainc::STEP;
use super::gammainc_da::raised;
use super::{Count, Laws, Many, ManyRule, OpFacts};
use crate::{Builder, Eqn, Op, Var};
use gradloom_maths::betainc_dab;

many_fns! { |x, y, z, w| betainc_dab::<A, _>(x, y, z, w) }

/// `betainc_dab a, b, x, n`: the derivative of `betainc` of order `i` in `a` and `j` in `b`, for
/// `n = i + 1024 j`.
// dz = da betainc_dab(a, b, x, n + 1) + db betainc_dab(a, b, x, n + 1024) + dx beta_density(a, b, x, n)
pub(super) static OP: Many = Many {
    name: "betainc_dab",
    fns: FNS,
    rules: &[
        ManyRule::Tangent(|b, eqn, da| next(b, eqn, da, 1.0)),
        ManyRule::Tangent(|b, eqn, db| next(b, eqn, db, STEP)),
        ManyRule::Tangent(|b, eqn, dx| {
            let slope = b.emit(Op::BetaDensity, &[], &eqn.args);
            b.mul(dx, slope)
        }),
        ManyRule::Rounded,
    ],
    methods: &[],
    count: Count::each(2000, 20),
    facts: OpFacts::ELEMENTWISE,
    laws: Laws::new(
        (0.55, 0.85),
        &[
            "(a: f64[2, 3], b: f64[2, 3], x: f64[2, 3], n: f64[]) { y = betainc_dab a, b, x, n return y }",
            "(a: f64[], b: f64[3], x: f64[2, 1], n: f64[1]) { y = betainc_dab a, b, x, n return y }",
            "(a: f64[0], b: f64[], x: f64[1], n: f64[]) { y = betainc_dab a, b, x, n return y }",
        ],
    ),
};

/// Emits the product of a tangent and the same op of an order raised by `step`.
pub(super) fn next(b: &mut Builder, eqn: &Eqn, d: Var, step: f64) -> Var {
    let order = raised(b, eqn, step);
    let [p, q, x] = [0, 1, 2].map(|i| eqn.args[i]);
    let slope = b.emit(eqn.op, &[], &[p, q, x, order]);
    b.mul(d, slope)
}
