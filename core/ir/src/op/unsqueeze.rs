use super::array::{Application, Array};
use super::{Count, Kernel, Linear, Method, OpFacts, Operands, Param, axes, shape, squeeze};
use crate::{Dim, Op, Shape, StaticKind};

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
        Ok(Shape(Some(grown)))
    },
    dtype: shape::of_operand,
    methods: &[Method::on_tensor(
        "unsqueeze",
        &[Param::Data, Param::Static],
    )],
    transpose: |b, eqn, ct| b.emit(Op::Squeeze, &eqn.attrs, &[ct]),
    kernel: Kernel::Unsqueeze,
    count: Count::View,
    facts: OpFacts::view(axes::inserted),
    samples: &[
        "(x: f64[2, 3]) { y = unsqueeze[axes=[1, -1]] x return y }",
        "(x: f64[]) { y = unsqueeze[axes=0] x return y }",
        "(x: f64[0]) { y = unsqueeze[axes=[0]] x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> Array {
    of.same_order()
}
