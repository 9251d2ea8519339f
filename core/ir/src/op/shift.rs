use super::cumsum::{negated, scanned, walk};
use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Op, StaticKind};

/// `shift[axes, reverse] x`: the element before each one along `axes`, and 0 at the start.
pub(super) static OP: Linear = Linear {
    name: "shift",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::KnownFlag.named("reverse"),
    ],
    shape: scanned,
    dtype: |_, args| shape::number(args[0].dtype, true),
    methods: &[],
    transpose: |b, eqn, ct| {
        let back = negated(b, eqn.attrs[1]);
        b.emit(Op::Shift, &[eqn.attrs[0], back], &[ct])
    },
    kernel: Kernel::Shift,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::ALONG),
    samples: &[
        "(x: f64[2, 3]) { y = shift[axes=[1], reverse=false] x return y }",
        "(x: f64[3, 2]) { y = shift[axes=[-2], reverse=true] x return y }",
        "(x: f64[2, 3, 2]) { y = shift[axes=[0, 2], reverse=false] x return y }",
        "(x: f64[2, 0]) { y = shift[axes=[1], reverse=false] x return y }",
        "(x: f64[]) { y = shift[axes=all, reverse=false] x return y }",
        "(x: i64[2, 3]) { y = shift[axes=[1], reverse=true] x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    walk(of, |rows| {
        rows[0].iter().rev().nth(1).copied().unwrap_or(0.0)
    })
}
