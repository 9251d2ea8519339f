use super::nd_array::{Application, NdArray, indices};
use super::{Count, Equal, Kernel, Linear, OpFacts, Operands, axes, shape, slice};
use crate::{Op, StaticKind};

/// `slice_t[starts, stops, steps] y, like x`: `y` placed among zeros in the shape of `x`.
///
/// This is the transpose of `slice`.
pub(super) static OP: Linear = Linear {
    name: "slice_t",
    operands: Operands::Fixed(1, 1),
    statics: &[
        StaticKind::Starts.named("starts"),
        StaticKind::Stops.named("stops"),
        StaticKind::Steps.named("steps"),
    ],
    shape: |statics, args| {
        let y = slice::sliced(&args[1].shape, statics)?;
        shape::same(&y, &args[0].shape)?;
        Ok(args[1].shape.clone())
    },
    dtype: shape::of_operand,
    methods: &[],
    transpose: |b, eqn, ct| b.emit(Op::Slice, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::SliceT,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::RANGES)
        .moves()
        .equal(Equal::WholeSlice),
    samples: &[
        "(y: f64[2, 4], x: f64[3, 4]) { z = slice_t[starts=[1], stops=[3], steps=[1]] y, like x return z }",
        "(y: f64[2, 2], x: f64[3, 5]) { z = slice_t[starts=[0, -4], stops=[-1, 9223372036854775807], steps=[1, 3]] y, like x return z }",
        "(y: f64[0], x: f64[3]) { z = slice_t[starts=[2], stops=[2], steps=[2]] y, like x return z }",
        "(y: f64[2, 2, 2], x: f64[3, 5, 2]) { z = slice_t[starts=[2, 3], stops=[0, -5], steps=[-1, -2]] y, like x return z }",
        "(y: f64[5], x: f64[5]) { z = slice_t[starts=[-1], stops=[9223372036854775807], steps=[-1]] y, like x return z }",
        "(y: f64[], x: f64[]) { z = slice_t[starts=[], stops=[], steps=[]] y, like x return z }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut whole = NdArray::zeros(of.out());
    for i in indices(&of.x().shape) {
        let at = slice::in_whole(of, of.out(), i.clone());
        whole.add(&at, of.x().get(&i));
    }
    whole
}
