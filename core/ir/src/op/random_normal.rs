use super::nd_array::{Application, NdArray};
use super::threefry;
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, lanes, shape};
use crate::StaticKind;

/// `random_normal[shape, dtype] key`: random floats of the standard normal distribution.
///
/// They are `sqrt(2) erf_inv(u)` with `u` uniform in (-1, 1).
pub(super) static OP: Nonlinear = Nonlinear {
    name: "random_normal",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Shape.named("shape"),
        StaticKind::DType.named("dtype"),
    ],
    shape: |statics, args| shape::drawn(args[0], shape::lengths(&statics[0])?),
    dtype: |statics, _| shape::number(statics[1].dtype(), false),
    methods: &[],
    rule: NonlinearRule::Zero("keys have no derivative"),
    kernel: Kernel::RandomNormal,
    count: Count::each(1, 1),
    facts: OpFacts::opaque(axes::opaque(lanes::leading)),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(key: i64[2]) { y = random_normal[shape=[2, 3], dtype=f64] key return y }",
            "(key: i64[2, 2]) { y = random_normal[shape=[3], dtype=f64] key return y }",
            "(key: i64[2]) { y = random_normal[shape=[], dtype=f32] key return y }",
            "(key: i64[2]) { y = random_normal[shape=[2, 0], dtype=f64] key return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    threefry::draw(of, |key, i| {
        let unit = threefry::unit(key, i, &of.statics[1]);
        2f64.sqrt() * inverse_of_erf(2.0 * unit - 1.0)
    })
}

/// Inverts `erf` by bisection.
fn inverse_of_erf(y: f64) -> f64 {
    let (mut low, mut high) = (-6.0, 6.0);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        match gradloom_maths::erf::<gradloom_maths::Plain, f64>(middle) < y {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}
