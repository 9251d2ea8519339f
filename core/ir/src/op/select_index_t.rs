use super::nd_array::{Application, NdArray, indices};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, select_index, shape};
use crate::Op;

/// `select_index_t[axis, index] y, like x`: `y` placed among zeros at an index of an axis of `x`.
///
/// This is the transpose of `select_index`.
pub(super) static OP: Linear = Linear {
    name: "select_index_t",
    operands: Operands::Fixed(1, 1),
    statics: select_index::STATICS,
    shape: |statics, args| {
        let y = select_index::selected(statics, &args[1].shape)?;
        shape::same(&y, &args[0].shape)?;
        Ok(args[1].shape.clone())
    },
    dtype: shape::of_operand,
    methods: &[],
    transpose: |b, eqn, ct| b.emit(Op::SelectIndex, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::SelectIndexT,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::INSERTED).moves(),
    samples: &[
        "(y: f64[4], x: f64[3, 4]) { z = select_index_t[axis=0, index=1] y, like x return z }",
        "(y: f64[3, 2], x: f64[3, 4, 2]) { z = select_index_t[axis=-2, index=-1] y, like x return z }",
        "(y: f64[], x: f64[3]) { z = select_index_t[axis=0, index=0] y, like x return z }",
        "(y: f64[0], x: f64[3, 0]) { z = select_index_t[axis=0, index=1] y, like x return z }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut whole = NdArray::zeros(of.out());
    for i in indices(&of.x().shape) {
        let to = select_index::in_whole(of, of.out(), i.clone());
        whole.add(&to, of.x().get(&i));
    }
    whole
}
