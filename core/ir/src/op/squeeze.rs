use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Dim, Fault, MAX_RANK, Op, Shape, Static, StaticKind};

methods! { squeeze {
    /// Removes axes of length 1.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([1, 3, 1], DType::F32);
    /// assert_eq!(x.squeeze(0).shape(), [3, 1]);
    /// assert_eq!(x.squeeze([0, -1]).shape(), [3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, its length is not 1, or `axes` is `..`.
    fn squeeze(x: Data, axes: Static);
} }

/// `squeeze[axes] x`: `x` without the given axes, which must have length 1.
///
/// The inverse is `unsqueeze[axes]`.
pub(super) static OP: Linear = Linear {
    name: "squeeze",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::UnitAxes.named("axes")],
    shape: |statics, args| {
        let Some(dims) = args[0].shape.dims() else {
            return Ok(Shape::UNKNOWN);
        };
        let Some(axes) = unit_axes(&statics[0], |_| dims.len())? else {
            return Ok(Shape::UNKNOWN);
        };
        if let Some(&axis) = axes.iter().find(|a| dims[**a].differs(Dim::Known(1))) {
            return Err(Fault::Length {
                what: format!("axis {axis}"),
                found: dims[axis].to_string(),
                expected: "1".into(),
            });
        }
        let kept = dims.iter().enumerate().filter(|(i, _)| !axes.contains(i));
        Ok(Shape(Some(kept.map(|(_, d)| *d).collect())))
    },
    dtype: shape::of_operand,
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit(Op::Unsqueeze, &eqn.attrs, &[ct]),
    kernel: Kernel::Squeeze,
    count: Count::View,
    facts: OpFacts::view(axes::REDUCED),
    samples: &[
        "(x: f64[2, 1, 3, 1]) { y = squeeze[axes=[1, -1]] x return y }",
        "(x: f64[1]) { y = squeeze[axes=0] x return y }",
        "(x: f64[0, 1]) { y = squeeze[axes=[-1]] x return y }",
    ],
};

/// Returns the axes to drop or insert, in ascending order, or `None` if they are unknown.
///
/// `rank` returns the larger of the two ranks, given the number of axes. `all` does not say how
/// many axes there are, so it is refused.
pub(super) fn unit_axes(
    axes: &Static,
    rank: impl FnOnce(usize) -> usize,
) -> Result<Option<Vec<usize>>, Fault> {
    match axes.ints() {
        Some(given) => {
            let rank = rank(given.len());
            match rank <= MAX_RANK {
                true => shape::axes(axes, rank),
                false => Err(Fault::TooManyAxes { rank }),
            }
        }
        None => Ok(None),
    }
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.same_order()
}
