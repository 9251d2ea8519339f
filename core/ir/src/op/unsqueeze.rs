use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape, squeeze};
use crate::{Dim, Op, Shape, StaticKind};

methods! { unsqueeze {
    /// Inserts axes of length 1. `axes` are their indices in the result.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([3], DType::F32);
    /// assert_eq!(x.unsqueeze(0).shape(), [1, 3]);
    /// assert_eq!(x.unsqueeze([0, -1]).shape(), [1, 3, 1]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range for the result or given twice, or `axes` is `..`.
    fn unsqueeze(x: Data, axes: Static);
} }

/// `unsqueeze[axes] x`: `x` with additional axes of length 1 at the given positions of the result.
///
/// The inverse is `squeeze[axes]`.
pub(super) static OP: Linear = Linear {
    name: "unsqueeze",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::UnitAxes.named("axes")],
    shape: |statics, args| {
        let Some(dims) = args[0].shape.dims() else {
            return Ok(Shape::UNKNOWN);
        };
        let Some(axes) = squeeze::unit_axes(&statics[0], |n| dims.len() + n)? else {
            return Ok(Shape::UNKNOWN);
        };
        let mut grown = dims.to_vec();
        for axis in axes {
            grown.insert(axis, Dim::Known(1));
        }
        Ok(Shape::from(grown))
    },
    dtype: shape::of_operand,
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit(Op::Squeeze, &eqn.attrs, &[ct]),
    kernel: Kernel::Unsqueeze,
    count: Count::View,
    facts: OpFacts::view(axes::INSERTED),
    samples: &[
        "(x: f64[2, 3]) { y = unsqueeze[axes=[1, -1]] x return y }",
        "(x: f64[]) { y = unsqueeze[axes=0] x return y }",
        "(x: f64[0]) { y = unsqueeze[axes=[0]] x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.same_order()
}
