use super::diagonal::{in_matrix, of_matrices};
use super::nd_array::{Application, NdArray, indices};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Op, StaticKind};

/// `diagonal_t[offset] y, like x`: `y` on a diagonal of matrices of zeros, in the shape of `x`.
///
/// This is the transpose of `diagonal`.
pub(super) static OP: Linear = Linear {
    name: "diagonal_t",
    operands: Operands::Fixed(1, 1),
    statics: &[StaticKind::Offset.named("offset")],
    shape: |statics, args| {
        let y = of_matrices(&args[1].shape, &statics[0])?;
        shape::same(&y, &args[0].shape)?;
        Ok(args[1].shape.clone())
    },
    dtype: shape::of_operand,
    methods: &[],
    transpose: |b, eqn, ct| b.emit(Op::Diagonal, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::DiagonalT,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::DIAGONALS),
    samples: &[
        "(y: f64[3], x: f64[3, 3]) { z = diagonal_t[offset=0] y, like x return z }",
        "(y: f64[2, 2], x: f64[2, 2, 4]) { z = diagonal_t[offset=1] y, like x return z }",
        "(y: f64[2], x: f64[4, 2]) { z = diagonal_t[offset=-2] y, like x return z }",
        "(y: f64[0], x: f64[2, 3]) { z = diagonal_t[offset=5] y, like x return z }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut whole = NdArray::zeros(of.out());
    for i in indices(&of.x().shape) {
        whole.add(&in_matrix(&i, of.int(0)), of.x().get(&i));
    }
    whole
}
