use super::nd_array::{Application, NdArray, aligned, indices};
use super::{
    Count, Equal, Kernel, Linear, Linearity, OpFacts, Operands, Ops, SumOver, axes, broadcast_like,
    shape,
};
use crate::Op;

/// `unbroadcast y, like from, like to`: `y` summed from the shape of `to` to the shape of `from`.
///
/// This is the transpose of `broadcast_like`.
pub(super) static OP: Linear = Linear {
    name: "unbroadcast",
    operands: Operands::Fixed(1, 2),
    statics: &[],
    shape: |_, args| {
        let [y, from, to] = [0, 1, 2].map(|i| &args[i].shape);
        broadcast_like::check(from, &shape::same(to, y)?)?;
        Ok(from.clone())
    },
    dtype: |_, args| shape::number(args[0].dtype, true),
    methods: &[],
    transpose: |b, eqn, ct| b.emit(Op::BroadcastLike, &[], &[ct, eqn.args[1], eqn.args[2]]),
    kernel: Kernel::Unbroadcast,
    count: Count::Rows {
        element: Ops::new(1, 0),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::opaque(axes::REPEATED)
        .linear(Linearity::Each(&[0]))
        .equal(Equal::SameAval)
        .sum(SumOver::Repeated),
    samples: &[
        "(y: f64[2, 3], x: f64[3]) { z = unbroadcast y, like x, like y return z }",
        "(y: f64[0, 3], x: f64[]) { z = unbroadcast y, like x, like y return z }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut total = NdArray::zeros(of.out());
    for i in indices(&of.x().shape) {
        total.add(&aligned(of.out(), &i), of.x().get(&i));
    }
    total
}
