use super::nd_array::{Application, NdArray};
use super::sort::order;
use super::{
    Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, argmax, axes, shape,
};
use crate::StaticKind;

methods! { argsort {
    /// Indices of the numbers of each row along an axis in ascending order, as `i64`. NaN is last.
    ///
    /// Equal elements keep their order. It has no derivative.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([3.0f32, 1.0, 2.0]);
    /// assert_eq!(x.argsort(0).to_vec::<i64>(), [1, 2, 0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range, or if the op does not accept the dtype.
    fn argsort(x: Data, axis: Static, descending: Switch(false));

    /// Indices of the numbers of each row along an axis in descending order, as `i64`. NaN is first.
    ///
    /// Equal elements keep their order. It has no derivative.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([3.0f32, 1.0, 2.0]);
    /// assert_eq!(x.argsort_descending(0).to_vec::<i64>(), [0, 2, 1]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range, or if the op does not accept the dtype.
    fn argsort_descending(x: Data, axis: Static, descending: Switch(true));
} }

/// `argsort[axis, descending] x`: the indices along `axis` in the order of the elements, as `i64`.
///
/// Equal elements keep their order, and NaN is the greatest.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "argsort",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axis.named("axis"),
        StaticKind::KnownFlag.named("descending"),
    ],
    shape: |statics, args| shape::along(&args[0].shape, &statics[0]),
    dtype: argmax::index_dtype,
    methods: METHODS,
    rule: NonlinearRule::Zero("an index has no derivative"),
    kernel: Kernel::Argsort,
    count: Count::each(10, 0),
    facts: OpFacts::opaque(axes::ALONG),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = argsort[axis=1, descending=false] x return y }",
            "(x: f64[4, 2]) { y = argsort[axis=-2, descending=true] x return y }",
            "(x: f64[2, 0]) { y = argsort[axis=1, descending=false] x return y }",
            "(x: i64[2, 5]) { y = argsort[axis=1, descending=true] x return y }",
            "(x: bool[2, 5]) { y = argsort[axis=1, descending=true] x return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let axis = of.axis(0, of.rank());
    of.build(|i| order(&of.x().row(&[axis], &i), of.flag(1))[i[axis]] as f64)
}
