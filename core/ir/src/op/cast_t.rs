use super::nd_array::{Application, NdArray};
use super::{Count, Equal, Kernel, Linear, OpFacts, Operands, shape};
use crate::{Op, StaticKind};

/// `cast_t[dtype] y, like x`: `y` in the dtype of `x`, the transpose of `cast`.
pub(super) static OP: Linear = Linear {
    name: "cast_t",
    operands: Operands::Fixed(1, 1),
    statics: &[StaticKind::DType.named("dtype")],
    shape: |_, args| shape::same(&args[0].shape, &args[1].shape),
    dtype: |statics, args| {
        shape::same_dtype(args[0].dtype, statics[0].dtype())?;
        Ok(args[1].dtype)
    },
    methods: &[],
    transpose: |b, eqn, ct| b.emit(Op::Cast, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::CastT,
    count: Count::Copy,
    facts: OpFacts::ELEMENTWISE
        .cheap()
        .equal(Equal::SameAval)
        .range(|of| of.x()),
    samples: &[
        "(y: f64[2, 3], x: f64[2, 3]) { z = cast_t[dtype=f64] y, like x return z }",
        "(y: f64[], x: f64[]) { z = cast_t[dtype=f64] y, like x return z }",
        "(y: f64[0], x: f64[0]) { z = cast_t[dtype=f64] y, like x return z }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.same_order()
}
