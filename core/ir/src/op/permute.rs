use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Dim, Fault, Op, Shape, Static, StaticKind};

methods! { permute {
    /// Permutes the axes: axis `i` of the result is axis `axes[i]` of `self`.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3, 4], DType::F32);
    /// assert_eq!(x.permute([2, 0, 1]).shape(), [4, 2, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If `axes` is not a permutation of all axes.
    fn permute(x: Data, axes: Static);
} }

/// `permute[axes] x`: axis `i` of the result is axis `axes[i]` of `x`.
pub(super) static OP: Linear = Linear {
    name: "permute",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::Permutation.named("axes")],
    shape: |statics, args| reorder(&args[0].shape, |rank| order(&statics[0], rank)),
    dtype: shape::of_operand,
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit(Op::PermuteT, &eqn.attrs, &[ct]),
    kernel: Kernel::Permute,
    count: Count::View,
    facts: OpFacts::view(axes::REORDERED),
    samples: &[
        "(x: f64[2, 3, 4]) { y = permute[axes=[2, 0, 1]] x return y }",
        "(x: f64[2, 0, 3]) { y = permute[axes=[-1, 0, -2]] x return y }",
        "(x: f64[]) { y = permute[axes=[]] x return y }",
    ],
};

/// Returns the axes of a permutation, counted from the left, or `None` if they are unknown.
pub(super) fn order(axes: &Static, rank: usize) -> Result<Option<Vec<usize>>, Fault> {
    let Some(axes) = axes.ints() else {
        return Ok(None);
    };
    if axes.len() != rank {
        return Err(Fault::Rank {
            found: rank,
            expected: format!("{}, the number of `axes`", axes.len()),
        });
    }
    let mut order = Vec::with_capacity(rank);
    for &a in axes {
        let from_left = shape::axis(a, rank)?;
        if order.contains(&from_left) {
            return Err(Fault::RepeatedAxis { axis: a });
        }
        order.push(from_left);
    }
    Ok(Some(order))
}

/// Returns the shape whose axis `i` is axis `order(rank)[i]` of `x`.
pub(super) fn reorder(
    x: &Shape,
    order: impl FnOnce(usize) -> Result<Option<Vec<usize>>, Fault>,
) -> Result<Shape, Fault> {
    let Some(dims) = x.dims() else {
        return Ok(Shape::UNKNOWN);
    };
    Ok(Shape(Some(match order(dims.len())? {
        Some(order) => order.into_iter().map(|a| dims[a]).collect(),
        None => vec![Dim::Unknown; dims.len()].into(),
    })))
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let axes = of.axes_in_order(0, of.rank());
    of.build(|i| {
        let mut from = vec![0; i.len()];
        for (&axis, i) in axes.iter().zip(i) {
            from[axis] = i;
        }
        of.x().get(&from)
    })
}
