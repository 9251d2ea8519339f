use super::{Count, Laws, Many, ManyRule, OpFacts};
use crate::{Builder, Eqn, Op, Var};
use gradloom_maths::gammainc_da;

many_fns! { |x, y, z| gammainc_da::<A, _>(x, y, z) }

/// `gammainc_da a, x, n`: the derivative of order `n` of `gammainc` in `a`.
// dz = da gammainc_da(a, x, n + 1) + dx gamma_density(a, x, n)
pub(super) static OP: Many = Many {
    name: "gammainc_da",
    fns: FNS,
    rules: &[
        ManyRule::Tangent(|b, eqn, da| {
            let next = raised(b, eqn, 1.0);
            let slope = b.emit(Op::GammaincDa, &[], &[eqn.args[0], eqn.args[1], next]);
            b.mul(da, slope)
        }),
        ManyRule::Tangent(|b, eqn, dx| {
            let slope = b.emit(Op::GammaDensity, &[], &eqn.args);
            b.mul(dx, slope)
        }),
        ManyRule::Rounded,
    ],
    methods: &[],
    count: Count::each(500, 8),
    facts: OpFacts::ELEMENTWISE,
    laws: Laws::new(
        (0.6, 1.4),
        &[
            "(a: f64[2, 3], x: f64[2, 3], n: f64[]) { y = gammainc_da a, x, n return y }",
            "(a: f64[3], x: f64[2, 1], n: f64[1]) { y = gammainc_da a, x, n return y }",
            "(a: f64[0], x: f64[], n: f64[]) { y = gammainc_da a, x, n return y }",
        ],
    ),
};

/// Emits the order, the last operand, rounded as the op rounds it.
pub(super) fn order(b: &mut Builder, eqn: &Eqn) -> Var {
    b.unary(Op::Round, eqn.args[eqn.args.len() - 1])
}

/// Emits the order plus a number.
pub(super) fn raised(b: &mut Builder, eqn: &Eqn, by: f64) -> Var {
    let order = order(b, eqn);
    let by = b.scalar(by, order);
    b.add(order, by)
}

/// Emits the order lowered by 1, but not below 0.
pub(super) fn lowered(b: &mut Builder, eqn: &Eqn) -> Var {
    let less = raised(b, eqn, -1.0);
    let zero = b.scalar(0.0, less);
    b.binary(Op::Maximum, less, zero)
}
