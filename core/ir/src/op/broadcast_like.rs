use super::nd_array::{Application, NdArray};
use super::{Count, Equal, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Dim, Fault, Op, Shape};

methods! { broadcast_like {
    /// Repeats elements along leading and unit axes to the shape of `like`.
    ///
    /// The elements of `like` are not read.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let (x, y) = (Tensor::from(1.0f32), Tensor::zeros([2, 3], DType::F32));
    /// assert_eq!(x.broadcast_like(&y).shape(), [2, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the shape of `self` does not broadcast to that of `like`.
    fn broadcast_like(x: Data + Like, like: Like);
} }

/// `broadcast_like x, like from, like to`: `x`, of the shape of `from`, repeated to that of `to`.
pub(super) static OP: Linear = Linear {
    name: "broadcast_like",
    operands: Operands::Fixed(1, 2),
    statics: &[],
    shape: |_, args| {
        let x = shape::same(&args[0].shape, &args[1].shape)?;
        check(&x, &args[2].shape)?;
        Ok(args[2].shape.clone())
    },
    dtype: shape::of_operand,
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit(Op::Unbroadcast, &[], &[ct, eqn.args[1], eqn.args[2]]),
    kernel: Kernel::BroadcastLike,
    count: Count::View,
    facts: OpFacts::view(axes::ELEMENTWISE).equal(Equal::SameAval),
    samples: &[
        "(x: f64[3], y: f64[2, 3]) { z = broadcast_like x, like x, like y return z }",
        "(x: f64[], y: f64[0, 3]) { z = broadcast_like x, like x, like y return z }",
        "(x: f64[2, 1], y: f64[2, 3]) { z = broadcast_like x, like x, like y return z }",
    ],
};

/// Checks that the shape `x` can be broadcast to the shape `to`.
pub(super) fn check(x: &Shape, to: &Shape) -> Result<(), Fault> {
    let (Some(from), Some(dims)) = (x.dims(), to.dims()) else {
        return Ok(());
    };
    let fits = |(from, to): (&Dim, &Dim)| !from.differs(Dim::Known(1)) || !from.differs(*to);
    let aligned = from.iter().rev().zip(dims.iter().rev());
    if from.len() <= dims.len() && aligned.into_iter().all(fits) {
        Ok(())
    } else {
        let shape = Box::new(to.clone());
        Err(Fault::BroadcastTo { shape })
    }
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| of.x().spread(&i))
}
