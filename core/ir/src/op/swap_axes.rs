use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, permute, shape};
use crate::{Op, StaticKind};

methods! { swap_axes {
    /// Swaps two axes.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3, 4], DType::F32);
    /// assert_eq!(x.swap_axes(-2, -1).shape(), [2, 4, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range.
    fn swap_axes(x: Data, a: Static, b: Static);
} }

/// `swap_axes[a, b] x`: `x` with two axes swapped. It is its own inverse.
pub(super) static OP: Linear = Linear {
    name: "swap_axes",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::Axis.named("a"), StaticKind::Axis.named("b")],
    shape: |statics, args| {
        permute::reorder(&args[0].shape, |rank| {
            let a = shape::known_axis(&statics[0], rank)?;
            let b = shape::known_axis(&statics[1], rank)?;
            Ok(a.zip(b).map(|(a, b)| {
                let mut order: Vec<usize> = (0..rank).collect();
                order.swap(a, b);
                order
            }))
        })
    },
    dtype: shape::of_operand,
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit(Op::SwapAxes, &eqn.attrs, &[ct]),
    kernel: Kernel::SwapAxes,
    count: Count::View,
    facts: OpFacts::view(axes::REORDERED),
    samples: &[
        "(x: f64[2, 3, 4]) { y = swap_axes[a=0, b=-1] x return y }",
        "(x: f64[2, 0]) { y = swap_axes[a=1, b=0] x return y }",
        "(x: f64[2]) { y = swap_axes[a=0, b=0] x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|mut i| {
        i.swap(of.axis(0, of.rank()), of.axis(1, of.rank()));
        of.x().get(&i)
    })
}
