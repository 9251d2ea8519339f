use super::dynamic_slice::{Part, check_part, dtype, in_whole, zeros};
use super::nd_array::{Application, NdArray, indices};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, lanes, shape};
use crate::{Builder, Eqn, Op, Var};

/// `dynamic_slice_t y, starts, like x, like y`: `y` placed among zeros in the shape of `x`.
///
/// This is the transpose of `dynamic_slice_like`.
pub(super) static OP: Linear = Linear {
    name: "dynamic_slice_t",
    operands: Operands::Fixed(2, 2),
    statics: &[],
    shape: |_, args| {
        let y = shape::same(&args[0].shape, &args[3].shape)?;
        check_part(&args[2].shape, &args[1].shape, &y)?;
        Ok(args[2].shape.clone())
    },
    dtype: |_, args| shape::number(dtype(args)?, true),
    methods: &[],
    transpose: |b, eqn, ct| b.emit_on(Op::DynamicSliceLike, eqn, ct)[0],
    kernel: Kernel::DynamicSliceT,
    count: Count::Copy,
    facts: OpFacts::composite(axes::opaque(lanes::simpler), decompose),
    samples: &[
        "(y: f64[3, 2], s: i64[1], x: f64[5, 2]) { z = dynamic_slice_t y, s, like x, like y return z }",
        "(y: f64[2, 2], s: i32[2], x: f64[4, 3]) { z = dynamic_slice_t y, s, like x, like y return z }",
        "(y: f64[3], s: i64[], x: f64[4]) { z = dynamic_slice_t y, s, like x, like y return z }",
        "(y: f64[0, 2], s: i64[2], x: f64[4, 3]) { z = dynamic_slice_t y, s, like x, like y return z }",
    ],
};

/// The transpose of `take` along each axis that has a start, the last one first.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let [mut y, starts, whole, part] = eqn.args[..] else {
        return None;
    };
    let dtype = b.aval(whole).dtype?;
    let part = Part::new(b, whole, starts, part)?;
    for (axis, i) in part.indices.iter().enumerate().rev() {
        let like = zeros(b, &part.cut(axis), dtype);
        let attrs = Part::attrs(b, axis);
        y = b.emit(Op::TakeT, &attrs, &[y, *i, like]);
    }
    Some(vec![y])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut whole = NdArray::zeros(of.out());
    for i in indices(&of.x().shape) {
        let to = in_whole(of.y(), of.out(), &of.x().shape, &i);
        whole.add(&to, of.x().get(&i));
    }
    whole
}
