use super::argmax::first_best;
use super::cummax::tangent;
use super::cumsum::{scanned, walk};
use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, shape};
use crate::{Op, StaticKind};

methods! { cummin {
    /// Smallest elements up to each one along `axes` of numbers. NaN from the first NaN on.
    ///
    /// Several axes are walked in row-major order. Equal elements share the derivative equally.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([2.0f32, 1.0, 3.0, 0.0]);
    /// assert_eq!(x.cummin(0).to_vec::<f32>(), [2.0, 1.0, 1.0, 0.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn cummin(x: Data, axes: Static, reverse: Switch(false));
} }

/// `cummin[axes, reverse] x`: the smallest element up to each one along `axes`; NaN after a NaN.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "cummin",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::KnownFlag.named("reverse"),
    ],
    shape: scanned,
    dtype: shape::of_operand,
    methods: METHODS,
    rule: NonlinearRule::Tangent(|b, eqn, dx| tangent(b, eqn, dx, Op::Gt)),
    kernel: Kernel::Cummin,
    count: Count::FLOP,
    facts: OpFacts::opaque(axes::ALONG).range(|of| of.x()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = cummin[axes=[1], reverse=false] x return y }",
            "(x: f64[3, 2]) { y = cummin[axes=[-2], reverse=true] x return y }",
            "(x: f64[2, 3, 2]) { y = cummin[axes=[0, 2], reverse=false] x return y }",
            "(x: f64[2, 0]) { y = cummin[axes=[1], reverse=false] x return y }",
            "(x: f64[]) { y = cummin[axes=all, reverse=false] x return y }",
            "(x: i64[2, 3]) { y = cummin[axes=[1], reverse=true] x return y }",
            "(x: bool[2, 3]) { y = cummin[axes=[1], reverse=true] x return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    walk(of, |rows| rows[0][first_best(&rows[0], |x, y| x < y)])
}
