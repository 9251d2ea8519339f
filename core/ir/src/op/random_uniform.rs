use super::nd_array::{Application, NdArray};
use super::threefry;
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, lanes, shape};
use crate::StaticKind;

/// `random_uniform[shape, dtype] key`: random floats, uniform in `[0, 1)`.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "random_uniform",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Shape.named("shape"),
        StaticKind::DType.named("dtype"),
    ],
    shape: |statics, args| shape::drawn(args[0], shape::lengths(&statics[0])?),
    dtype: |statics, _| shape::number(statics[1].dtype(), false),
    methods: &[],
    rule: NonlinearRule::Zero("keys have no derivative"),
    kernel: Kernel::RandomUniform,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::opaque(lanes::leading)),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(key: i64[2]) { y = random_uniform[shape=[2, 3], dtype=f64] key return y }",
            "(key: i64[2, 2]) { y = random_uniform[shape=[3], dtype=f64] key return y }",
            "(key: i64[2]) { y = random_uniform[shape=[], dtype=f32] key return y }",
            "(key: i64[2]) { y = random_uniform[shape=[2, 0], dtype=f64] key return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    threefry::draw(of, |key, i| threefry::unit(key, i, &of.statics[1]))
}
