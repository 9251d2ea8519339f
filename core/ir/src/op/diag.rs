use super::diagonal::in_matrix;
use super::nd_array::{Application, NdArray, indices};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Dim, Fault, Op, Poly, Shape, StaticKind};

methods! { diag {
    /// Square matrices with the elements of the last axis on a diagonal, and zeros elsewhere.
    ///
    /// The diagonal 0 is the main one, and those to its right are positive. Takes every dtype.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(x.diag(0).to_vec::<f32>(), [1.0, 0.0, 0.0, 2.0]);
    /// assert_eq!(x.diag(-1).shape(), [3, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the rank is 0, or the matrices are too large.
    fn diag(x: Data, offset: Static);
} }

/// `diag[offset] x`: square matrices with the elements of the last axis on a diagonal.
pub(super) static OP: Linear = Linear {
    name: "diag",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::Offset.named("offset")],
    shape: |statics, args| {
        let Some(dims) = args[0].shape.dims() else {
            return Ok(Shape::UNKNOWN);
        };
        let Some((len, leading)) = dims.split_last() else {
            return Err(Fault::Rank {
                found: 0,
                expected: "at least 1".into(),
            });
        };
        let added = statics[0]
            .int()
            .map(|offset| Poly::constant(offset.unsigned_abs().into()));
        let side = len
            .poly()
            .zip(added)
            .and_then(|(len, added)| len.plus(&added));
        let side = side.map_or(Dim::Unknown, Dim::from);
        Ok(Shape::from([leading, &[side, side]].concat()))
    },
    dtype: shape::of_operand,
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit(Op::DiagT, &eqn.attrs, &[ct]),
    kernel: Kernel::Diag,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::DIAGONALS).moves(),
    samples: &[
        "(x: f64[3]) { y = diag[offset=0] x return y }",
        "(x: f64[2, 2]) { y = diag[offset=1] x return y }",
        "(x: f64[2]) { y = diag[offset=-2] x return y }",
        "(x: f64[0]) { y = diag[offset=0] x return y }",
        "(x: bool[3]) { y = diag[offset=0] x return y }",
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
