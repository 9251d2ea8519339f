use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, cumsum, shape};
use crate::{Op, StaticKind};

methods! { flip {
    /// The elements in reverse order along `axes`. Takes every dtype.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.flip(1).to_vec::<f32>(), [2.0, 1.0, 4.0, 3.0]);
    /// assert_eq!(x.flip(..).to_vec::<f32>(), [4.0, 3.0, 2.0, 1.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice.
    fn flip(x: Data, axes: Static);
} }

/// `flip[axes] x`: the elements in reverse order along `axes`.
pub(super) static OP: Linear = Linear {
    name: "flip",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::Axes.named("axes")],
    shape: cumsum::scanned,
    dtype: shape::of_operand,
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit(Op::Flip, &eqn.attrs, &[ct]),
    kernel: Kernel::Flip,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::ALONG).moves().range(|of| of.x()),
    samples: &[
        "(x: f64[2, 3]) { y = flip[axes=[1]] x return y }",
        "(x: f64[2, 3, 2]) { y = flip[axes=[0, -1]] x return y }",
        "(x: f64[2, 3]) { y = flip[axes=all] x return y }",
        "(x: f64[0, 3]) { y = flip[axes=[1]] x return y }",
        "(x: f64[]) { y = flip[axes=all] x return y }",
        "(x: bool[3]) { y = flip[axes=[0]] x return y }",
        "(x: i32[3, 2]) { y = flip[axes=[0]] x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let axes = of.axes(0, of.rank());
    of.build(|mut i| {
        for &axis in &axes {
            i[axis] = of.out()[axis] - 1 - i[axis];
        }
        of.x().get(&i)
    })
}
