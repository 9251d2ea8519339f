use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Dim, Fault, Op, Shape, Static, StaticKind};

methods! { diagonal {
    /// A diagonal of the matrices of the last two axes. Takes every dtype.
    ///
    /// The diagonal 0 is the main one, and those to its right are positive. A diagonal outside of the
    /// matrix is empty.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.diagonal(0).to_vec::<f32>(), [1.0, 4.0]);
    /// assert_eq!(x.diagonal(1).to_vec::<f32>(), [2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are less than two axes.
    fn diagonal(x: Data + Like, offset: Static);
} }

/// `diagonal[offset] x, like x`: a diagonal of the matrices of the last two axes.
pub(super) static OP: Linear = Linear {
    name: "diagonal",
    operands: Operands::Fixed(1, 1),
    statics: &[StaticKind::Offset.named("offset")],
    shape: |statics, args| {
        let x = shape::same(&args[0].shape, &args[1].shape)?;
        of_matrices(&x, &statics[0])
    },
    dtype: shape::of_operand,
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit(Op::DiagonalT, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::Diagonal,
    count: Count::View,
    facts: OpFacts::view(axes::DIAGONALS),
    samples: &[
        "(x: f64[3, 3]) { y = diagonal[offset=0] x, like x return y }",
        "(x: f64[2, 2, 4]) { y = diagonal[offset=1] x, like x return y }",
        "(x: f64[4, 2]) { y = diagonal[offset=-2] x, like x return y }",
        "(x: f64[2, 3]) { y = diagonal[offset=5] x, like x return y }",
        "(x: bool[3, 3]) { y = diagonal[offset=0] x, like x return y }",
        "(x: f64[0, 3]) { y = diagonal[offset=1] x, like x return y }",
    ],
};

/// Returns the shape of a diagonal of matrices.
pub(super) fn of_matrices(x: &Shape, offset: &Static) -> Result<Shape, Fault> {
    let x = shape::matrices(x)?;
    let Some([leading @ .., rows, columns]) = x.dims() else {
        return Ok(Shape::UNKNOWN);
    };
    let len = match (offset.int(), rows.known(), columns.known()) {
        (Some(offset), Some(rows), Some(columns)) => {
            let cut = |len: usize, n: i64| len.saturating_sub(usize::try_from(n).unwrap_or(0));
            Dim::Known(cut(rows, offset.saturating_neg()).min(cut(columns, offset)))
        }
        (Some(0), _, _) if rows == columns => *rows,
        _ => Dim::Unknown,
    };
    Ok(Shape::from([leading, &[len]].concat()))
}

/// Returns the index in a matrix of an element of its diagonal.
pub(super) fn in_matrix(index: &[usize], offset: i64) -> Vec<usize> {
    let (i, leading) = index.split_last().expect("a diagonal has an axis");
    let skipped = |n: i64| *i + usize::try_from(n).unwrap_or(0);
    [leading, &[skipped(-offset), skipped(offset)]].concat()
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| of.x().get(&in_matrix(&i, of.int(0))))
}
