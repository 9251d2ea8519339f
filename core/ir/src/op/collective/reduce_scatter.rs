use super::{CollectiveOp, CollectiveRule, OVER, Variance, axis, changed, divided, part, size};
use crate::op::{Count, NdArray, OpFacts, Operands, axes, shape};
use crate::{Op, StaticKind};

/// `reduce_scatter[axis, over] x`: the part along `axis` that belongs to the device, of the sum of the values of
/// its group.
pub(in crate::op) static OP: CollectiveOp = CollectiveOp {
    name: "reduce_scatter",
    statics: &[StaticKind::Axis.named("axis"), OVER],
    operands: Operands::Fixed(1, 0),
    shape: |statics, args| {
        changed(statics, args, |dims, axis| {
            divided(dims, axis, size(statics, 1))
        })
    },
    dtype: |_, args| shape::number(args[0].dtype, true),
    rule: CollectiveRule::Linear {
        transpose: |b, eqn, ct| {
            let yes = b.attr(true);
            b.emit(Op::AllGather, &[eqn.attrs[0], eqn.attrs[1], yes], &[ct])
        },
    },
    variance: |_| Variance::Keeps,
    sent: super::sent_parts,
    combine: |statics, group, i| {
        let axis = axis(statics, 0, &group[0]);
        let parts = group.iter().map(|x| part(x, axis, i, group.len()));
        let sum = |x: NdArray, y: NdArray| NdArray {
            data: x.data.iter().zip(&y.data).map(|(x, y)| x + y).collect(),
            ..x
        };
        parts.reduce(sum).expect("a group has a device")
    },
    count: Count::FLOP,
    facts: OpFacts::opaque(axes::ALONG),
};
