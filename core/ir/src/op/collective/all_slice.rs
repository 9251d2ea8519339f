use super::{CollectiveOp, CollectiveRule, OVER, Variance, axis, changed, divided, part, size};
use crate::op::{Count, OpFacts, Operands, axes, shape};
use crate::{Op, StaticKind};

/// `all_slice[axis, over] x`: the part along `axis` that belongs to the device, of a value that is equal on all
/// devices of its group.
pub(in crate::op) static OP: CollectiveOp = CollectiveOp {
    name: "all_slice",
    statics: &[StaticKind::Axis.named("axis"), OVER],
    operands: Operands::Fixed(1, 0),
    shape: |statics, args| {
        changed(statics, args, |dims, axis| {
            divided(dims, axis, size(statics, 1))
        })
    },
    dtype: shape::of_operand,
    rule: CollectiveRule::Linear {
        transpose: |b, eqn, ct| {
            let no = b.attr(false);
            b.emit(Op::AllGather, &[eqn.attrs[0], eqn.attrs[1], no], &[ct])
        },
    },
    variance: |_| Variance::Adds,
    sent: |_, _| 0,
    combine: |statics, group, i| {
        let axis = axis(statics, 0, &group[i]);
        part(&group[i], axis, i, group.len())
    },
    count: Count::Copy,
    facts: OpFacts::opaque(axes::ALONG),
};
