use super::axes::Role;
use super::nd_array::{Application, NdArray};
use super::take::{self, AsAlong, places, written};
use super::{AxesRule, Count, Fails, Kernel, Linear, OpFacts, Operands, axes, lanes, shape};
use crate::{Builder, Eqn, Op, Var};

const AXES: AxesRule = AxesRule {
    signature: |of| axes::indexed(of, &[Role::Part, Role::Indices], Role::Whole),
    batch: |b, of| lanes::indexed(b, of, false, to_along),
};

/// `take_t[axis, along, last] y, i, like x`: `y` added to zeros of the shape of `x`, at the indices `i`.
///
/// If `last` is true, only the last of equal indices is written. This is the transpose of `take`.
pub(super) static OP: Linear = Linear {
    name: "take_t",
    operands: Operands::Fixed(2, 1),
    statics: take::STATICS,
    shape: |statics, args| written(statics, &args[2].shape, args[1], &args[0].shape),
    dtype: |_, args| {
        shape::indices(args[1].dtype)?;
        shape::number(args[0].dtype, true)
    },
    methods: &[],
    transpose: |b, eqn, ct| b.emit_on(Op::Take, eqn, ct)[0],
    kernel: Kernel::TakeT,
    count: Count::Copy,
    facts: OpFacts::opaque(AXES).fails(Fails::Labels(Op::Take)),
    samples: &[
        "(y: f64[4, 2], i: i64[4], x: f64[3, 2]) { z = take_t[axis=0, along=false, last=false] y, i, like x return z }",
        "(y: f64[2, 2, 2, 2], i: i32[2, 2], x: f64[2, 3, 2]) { z = take_t[axis=1, along=false, last=false] y, i, like x return z }",
        "(y: f64[], i: i64[], x: f64[3]) { z = take_t[axis=-1, along=false, last=false] y, i, like x return z }",
        "(y: f64[5, 2], i: i64[5], x: f64[3, 2]) { z = take_t[axis=0, along=false, last=true] y, i, like x return z }",
        "(y: f64[0, 2], i: i64[0], x: f64[3, 2]) { z = take_t[axis=0, along=false, last=false] y, i, like x return z }",
        "(y: f64[2, 3], i: i64[2, 3], x: f64[2, 4]) { z = take_t[axis=1, along=true, last=false] y, i, like x return z }",
        "(y: f64[2, 4, 2], i: i64[2, 4, 1], x: f64[1, 3, 2]) { z = take_t[axis=1, along=true, last=false] y, i, like x return z }",
        "(y: f64[2, 4, 2], i: i64[1, 4, 2], x: f64[2, 3, 1]) { z = take_t[axis=-2, along=true, last=true] y, i, like x return z }",
    ],
};

/// With indices along one axis, for each row.
fn to_along(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let along = AsAlong::new(b, eqn, eqn.args[2], eqn.args[1])?;
    let mut args = eqn.args.clone();
    args[0] = AsAlong::reshape(b, args[0], &along.flat);
    Some(vec![along.emit(b, eqn.op, args)])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut whole = NdArray::zeros(of.out());
    for place in places(of, of.out(), &of.x().shape) {
        if place.is_last || !of.flag(2) {
            whole.add(&place.whole, of.x().get(&place.part));
        }
    }
    whole
}
