use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, permute, shape};
use crate::{Op, StaticKind};

methods! { moveaxis {
    /// Moves an axis to another position. The other axes keep their order.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::zeros([2, 3, 4], DType::F32);
    /// assert_eq!(x.moveaxis(0, -1).shape(), [3, 4, 2]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range.
    fn moveaxis(x: Data, from: Static, to: Static);
} }

/// `moveaxis[from, to] x`: axis `from` becomes axis `to`, and the others keep their order.
///
/// The inverse is `moveaxis[to, from]`.
pub(super) static OP: Linear = Linear {
    name: "moveaxis",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::Axis.named("from"), StaticKind::Axis.named("to")],
    shape: |statics, args| {
        permute::reorder(&args[0].shape, |rank| {
            let from = shape::known_axis(&statics[0], rank)?;
            let to = shape::known_axis(&statics[1], rank)?;
            Ok(from.zip(to).map(|(from, to)| {
                let mut order: Vec<usize> = (0..rank).filter(|a| *a != from).collect();
                order.insert(to, from);
                order
            }))
        })
    },
    dtype: shape::of_operand,
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit(Op::Moveaxis, &[eqn.attrs[1], eqn.attrs[0]], &[ct]),
    kernel: Kernel::Moveaxis,
    count: Count::View,
    facts: OpFacts::view(axes::REORDERED),
    samples: &[
        "(x: f64[2, 3, 4]) { y = moveaxis[from=0, to=-1] x return y }",
        "(x: f64[2, 3, 4]) { y = moveaxis[from=2, to=1] x return y }",
        "(x: f64[2, 0]) { y = moveaxis[from=-1, to=0] x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|mut i| {
        let moved = i.remove(of.axis(1, of.rank()));
        i.insert(of.axis(0, of.rank()), moved);
        of.x().get(&i)
    })
}
