use super::nd_array::{Application, NdArray};
use super::sort::order;
use super::top_k::first_of_axis;
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, argmax, axes};
use crate::StaticKind;

methods! { top_k_indices {
    /// Indices of the `count` largest numbers along an axis, as `i64`: those of [`Tensor::top_k`].
    ///
    /// It has no derivative.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([3.0f32, 1.0, 3.0]);
    /// assert_eq!(x.top_k_indices(2, 0).to_vec::<i64>(), [0, 2]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range or has fewer elements, or if the op does not accept the dtype.
    fn top_k_indices(x: Data, count: Static, axis: Static);
} }

/// `top_k_indices[count, axis] x`: the indices of the `count` largest elements along `axis`.
///
/// The first of equal elements is first, and NaN is the greatest.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "top_k_indices",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Count.named("count"),
        StaticKind::Axis.named("axis"),
    ],
    shape: first_of_axis,
    dtype: argmax::index_dtype,
    methods: METHODS,
    rule: NonlinearRule::Zero("an index has no derivative"),
    kernel: Kernel::TopKIndices,
    count: Count::each(10, 0),
    facts: OpFacts::opaque(axes::ALONG),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = top_k_indices[count=2, axis=1] x return y }",
            "(x: f64[4, 2]) { y = top_k_indices[count=3, axis=-2] x return y }",
            "(x: f64[2, 0]) { y = top_k_indices[count=0, axis=1] x return y }",
            "(x: i64[2, 5]) { y = top_k_indices[count=1, axis=1] x return y }",
            "(x: bool[2, 5]) { y = top_k_indices[count=1, axis=1] x return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let axis = of.axis(1, of.rank());
    of.build(|i| order(&of.x().row(&[axis], &i), true)[i[axis]] as f64)
}
