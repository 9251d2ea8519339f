use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Op, StaticKind};

methods! { triu {
    /// The upper triangles of the matrices of the last two axes: zeros to the left of a diagonal.
    ///
    /// `diagonal` is the number of the first kept diagonal: 0 is the main one, and those to its right
    /// are positive. Takes every dtype.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.triu(0).to_vec::<f32>(), [1.0, 2.0, 0.0, 4.0]);
    /// assert_eq!(x.triu(1).to_vec::<f32>(), [0.0, 2.0, 0.0, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are less than two axes.
    fn triu(x: Data, diagonal: Static);
} }

/// `triu[diagonal] x`: the upper triangles of the matrices of the last two axes.
///
/// The elements to the left of the diagonal are zero.
pub(super) static OP: Linear = Linear {
    name: "triu",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::Offset.named("diagonal")],
    shape: |_, args| shape::matrices(&args[0].shape),
    dtype: shape::of_operand,
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit(Op::Triu, &eqn.attrs, &[ct]),
    kernel: Kernel::Triu,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::MATRICES).moves(),
    samples: &[
        "(x: f64[3, 3]) { y = triu[diagonal=0] x return y }",
        "(x: f64[2, 2, 4]) { y = triu[diagonal=1] x return y }",
        "(x: f64[4, 2]) { y = triu[diagonal=-1] x return y }",
        "(x: f64[2, 3]) { y = triu[diagonal=-9] x return y }",
        "(x: f64[2, 3]) { y = triu[diagonal=9] x return y }",
        "(x: f64[0, 2]) { y = triu[diagonal=0] x return y }",
        "(x: bool[3, 3]) { y = triu[diagonal=0] x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let [row, column] = [of.rank() - 2, of.rank() - 1];
    of.build(|i| {
        let diagonal = i[column] as i64 - i[row] as i64;
        if diagonal >= of.int(0) {
            of.x().get(&i)
        } else {
            0.0
        }
    })
}
