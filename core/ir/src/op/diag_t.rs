use super::diagonal::{in_matrix, of_matrices};
use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Fault, Op, Shape, StaticKind};

/// `diag_t[offset] x`: a diagonal of the square matrices of the last two axes.
///
/// This is the transpose of `diag`.
pub(super) static OP: Linear = Linear {
    name: "diag_t",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::Offset.named("offset")],
    shape: |statics, args| of_squares(&args[0].shape).and_then(|x| of_matrices(&x, &statics[0])),
    dtype: shape::of_operand,
    methods: &[],
    transpose: |b, eqn, ct| b.emit(Op::Diag, &eqn.attrs, &[ct]),
    kernel: Kernel::DiagT,
    count: Count::View,
    facts: OpFacts::view(axes::DIAGONALS),
    samples: &[
        "(x: f64[3, 3]) { y = diag_t[offset=0] x return y }",
        "(x: f64[2, 3, 3]) { y = diag_t[offset=1] x return y }",
        "(x: f64[4, 4]) { y = diag_t[offset=-2] x return y }",
        "(x: f64[0, 0]) { y = diag_t[offset=0] x return y }",
    ],
};

/// Returns the shape after a check that the matrices of the last two axes are square.
fn of_squares(x: &Shape) -> Result<Shape, Fault> {
    let x = shape::matrices(x)?;
    if let Some([.., rows, columns]) = x.dims()
        && rows.differs(*columns)
    {
        return Err(Fault::Length {
            what: "the length of the last axis".to_owned(),
            found: columns.to_string(),
            expected: rows.to_string(),
        });
    }
    Ok(x)
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| of.x().get(&in_matrix(&i, of.int(0))))
}
