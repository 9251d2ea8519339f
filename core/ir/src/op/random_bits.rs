use super::nd_array::{Application, NdArray};
use super::threefry;
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, lanes, shape};
use crate::{DType, StaticKind};

/// `random_bits[shape] key`: random integers from 0 to 2^32 - 1, as `i64`.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "random_bits",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::Shape.named("shape")],
    shape: |statics, args| shape::drawn(args[0], shape::lengths(&statics[0])?),
    dtype: |_, _| Ok(Some(DType::I64)),
    methods: &[],
    rule: NonlinearRule::Zero("keys have no derivative"),
    kernel: Kernel::RandomBits,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::opaque(lanes::leading)),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(key: i64[2]) { y = random_bits[shape=[2, 3]] key return y }",
            "(key: i64[2, 2]) { y = random_bits[shape=[3]] key return y }",
            "(key: i64[2]) { y = random_bits[shape=[]] key return y }",
            "(key: i64[2]) { y = random_bits[shape=[2, 0]] key return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    threefry::draw(of, |key, i| threefry::word(key, i).into())
}
