use super::{Count, Laws, Many, ManyRule, OpFacts};
use crate::{Builder, Eqn, Op, Var};
use gradloom_maths::{BETA_ORDER_STEP, betainc};

many_fns! { |x, y, z| betainc::<A, _>(x, y, z) }

methods! { betainc {
    /// The regularised incomplete beta function of `a`, `b` and `x`, with broadcasting: the probability
    /// that a beta distribution with the parameters `a` and `b` gives to numbers up to `x`.
    ///
    /// Negative parameters, and `x` outside of 0 to 1, give NaN. It has derivatives in all operands.
    /// Those in `a` and `b` are NaN from the total order 4 on, where both parameters are above 1e13
    /// and `x` is near the mean, and where a parameter is above 1e100.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let (a, b) = (Tensor::scalar(1.0), Tensor::scalar(2.0));
    /// let x = Tensor::from([0.0f64, 0.5, 1.0]);
    /// let y = a.betainc(&b, &x);
    /// assert!((y - Tensor::from([0.0f64, 0.75, 1.0])).abs().max(..).item::<f64>() < 1e-14);
    /// ```
    ///
    /// # Panics
    ///
    /// If the shapes do not broadcast, or the dtypes cannot be promoted or are not floats.
    fn betainc(a: Data, b: Data, x: Data);
} }

/// `betainc a, b, x`: the regularised incomplete beta function.
// dz = da betainc_dab(a, b, x, 1) + db betainc_dab(a, b, x, 1024) + dx beta_density(a, b, x, 0)
pub(super) static OP: Many = Many {
    name: "betainc",
    fns: FNS,
    rules: &[
        ManyRule::Tangent(|b, eqn, da| product(b, eqn, da, Op::BetaincDab, 1.0)),
        ManyRule::Tangent(|b, eqn, db| product(b, eqn, db, Op::BetaincDab, STEP)),
        ManyRule::Tangent(|b, eqn, dx| product(b, eqn, dx, Op::BetaDensity, 0.0)),
    ],
    methods: METHODS,
    count: Count::each(300, 6),
    facts: OpFacts::ELEMENTWISE,
    laws: Laws::new(
        (0.55, 0.85),
        &[
            "(a: f64[2, 3], b: f64[2, 3], x: f64[2, 3]) { y = betainc a, b, x return y }",
            "(a: f64[], b: f64[3], x: f64[2, 1]) { y = betainc a, b, x return y }",
            "(a: f64[2], b: f64[1], x: f64[]) { y = betainc a, b, x return y }",
            "(a: f64[0], b: f64[], x: f64[1]) { y = betainc a, b, x return y }",
        ],
    ),
};

/// The order of a derivative in `b`. That in `a` has the order 1.
pub(super) const STEP: f64 = BETA_ORDER_STEP as f64;

/// Emits the product of a tangent and an op of all operands and an order.
fn product(b: &mut Builder, eqn: &Eqn, d: Var, op: Op, order: f64) -> Var {
    let order = b.scalar(order, eqn.out());
    let [p, q, x] = [0, 1, 2].map(|i| eqn.args[i]);
    let slope = b.emit(op, &[], &[p, q, x, order]);
    b.mul(d, slope)
}
