use super::dynamic_slice::{Part, check_part, dtype, in_whole, zeros};
use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, lanes, shape};
use crate::{Builder, Eqn, Op, Var};

/// `dynamic_slice_like x, starts, like x, like y`: the part of `x` that has the shape of `y`.
///
/// `starts` are as in `dynamic_slice`.
pub(super) static OP: Linear = Linear {
    name: "dynamic_slice_like",
    operands: Operands::Fixed(2, 2),
    statics: &[],
    shape: |_, args| {
        let x = shape::same(&args[0].shape, &args[2].shape)?;
        check_part(&x, &args[1].shape, &args[3].shape)?;
        Ok(args[3].shape.clone())
    },
    dtype: |_, args| dtype(args),
    methods: &[],
    transpose: |b, eqn, ct| b.emit_on(Op::DynamicSliceT, eqn, ct)[0],
    kernel: Kernel::DynamicSliceLike,
    count: Count::Copy,
    facts: OpFacts::composite(axes::opaque(lanes::simpler), decompose)
        .moves()
        .range(|of| of.x()),
    samples: &[
        "(x: f64[5, 2], s: i64[1], y: f64[3, 2]) { z = dynamic_slice_like x, s, like x, like y return z }",
        "(x: f64[4, 3], s: i32[2], y: f64[2, 2]) { z = dynamic_slice_like x, s, like x, like y return z }",
        "(x: f64[4], s: i64[], y: f64[3]) { z = dynamic_slice_like x, s, like x, like y return z }",
        "(x: f64[4], s: i64[], y: f64[0]) { z = dynamic_slice_like x, s, like x, like y return z }",
    ],
};

/// `take` along each axis that has a start.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let [mut x, starts, whole, part] = eqn.args[..] else {
        return None;
    };
    let dtype = b.aval(whole).dtype?;
    let part = Part::new(b, whole, starts, part)?;
    for (axis, i) in part.indices.iter().enumerate() {
        let like = zeros(b, &part.cut(axis), dtype);
        let attrs = Part::attrs(b, axis);
        x = b.emit(Op::Take, &attrs, &[x, *i, like]);
    }
    Some(vec![x])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| of.x().get(&in_whole(of.y(), &of.x().shape, of.out(), &i)))
}
