use super::gammainc_da::{lowered, order, raised};
use super::{Count, Laws, Many, ManyRule, OpFacts};
use crate::Op;
use gradloom_maths::zeta_ds;

many_fns! { |x, y, z| zeta_ds::<A, _>(x, y, z) }

/// `zeta_ds s, q, n`: the derivative of order `n` of `zeta` in `s`.
// dz = ds zeta_ds(s, q, n + 1) - dq (s zeta_ds(s + 1, q, n) + n zeta_ds(s + 1, q, n - 1))
pub(super) static OP: Many = Many {
    name: "zeta_ds",
    fns: FNS,
    rules: &[
        ManyRule::Tangent(|b, eqn, ds| {
            let next = raised(b, eqn, 1.0);
            let slope = b.emit(Op::ZetaDs, &[], &[eqn.args[0], eqn.args[1], next]);
            b.mul(ds, slope)
        }),
        ManyRule::Tangent(|b, eqn, dq| {
            let (s, q, n) = (eqn.args[0], eqn.args[1], order(b, eqn));
            let one = b.scalar(1.0, s);
            let next = b.add(s, one);
            let whole = b.emit(Op::ZetaDs, &[], &[next, q, n]);
            let whole = b.mul(s, whole);
            let less = lowered(b, eqn);
            let before = b.emit(Op::ZetaDs, &[], &[next, q, less]);
            let rest = b.mul(n, before);
            let slope = b.add(whole, rest);
            let part = b.mul(dq, slope);
            b.neg(part)
        }),
        ManyRule::Rounded,
    ],
    methods: &[],
    count: Count::each(200, 28),
    facts: OpFacts::ELEMENTWISE,
    laws: Laws::new(
        (1.6, 2.4),
        &[
            "(s: f64[2, 3], q: f64[2, 3], n: f64[]) { y = zeta_ds s, q, n return y }",
            "(s: f64[3], q: f64[2, 1], n: f64[1]) { y = zeta_ds s, q, n return y }",
            "(s: f64[0], q: f64[], n: f64[]) { y = zeta_ds s, q, n return y }",
        ],
    ),
};
