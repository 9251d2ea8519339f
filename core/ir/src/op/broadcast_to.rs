use super::nd_array::{Application, NdArray};
use super::{
    AxesRule, Count, Equal, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes,
    broadcast_like, lanes, shape,
};
use crate::StaticKind;

methods! { broadcast_to {
    /// Repeats elements along leading and unit axes to the given shape, as in NumPy broadcasting.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(x.broadcast_to([2, 2]).to_vec::<f32>(), [1.0, 2.0, 1.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the shape of `self` does not broadcast to `shape`.
    fn broadcast_to(x: Data, shape: Static);
} }

const AXES: AxesRule = AxesRule {
    batch: lanes::broadcast_to,
    ..axes::ELEMENTWISE
};

/// `broadcast_to[shape] x`: `x` repeated along additional axes, or axes of length 1, to a shape.
///
/// Tangents use `broadcast_like` instead, whose transpose has both shapes as operands.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "broadcast_to",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::Shape.named("shape")],
    shape: |statics, args| {
        let to = shape::lengths(&statics[0])?;
        broadcast_like::check(&args[0].shape, &to)?;
        Ok(to)
    },
    dtype: |_, args| Ok(args[0].dtype),
    methods: METHODS,
    // dy = broadcast_like dx, like x, like y
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        dx[0].map(|d| b.broadcast(d, eqn.args[0], eqn.out()))
    }),
    kernel: Kernel::BroadcastTo,
    count: Count::View,
    facts: OpFacts::view(AXES).equal(Equal::SameAval),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[3]) { y = broadcast_to[shape=[2, 3]] x return y }",
            "(x: f64[2, 1]) { y = broadcast_to[shape=[2, 0]] x return y }",
            "(x: f64[]) { y = broadcast_to[shape=[]] x return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| of.x().spread(&i))
}
