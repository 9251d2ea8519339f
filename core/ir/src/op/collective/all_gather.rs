use super::{CollectiveOp, CollectiveRule, OVER, Variance, axis, changed, joined, size, times};
use crate::op::{Count, OpFacts, Operands, axes, shape};
use crate::{Op, StaticKind};

/// `all_gather[axis, over, varying] x`: the values of a group, one after the other along `axis`.
///
/// All devices of the group have the same result. If `varying` is true, it counts as one that differs between
/// them: each device has a cotangent of its own.
pub(in crate::op) static OP: CollectiveOp = CollectiveOp {
    name: "all_gather",
    statics: &[
        StaticKind::Axis.named("axis"),
        OVER,
        StaticKind::KnownFlag.named("varying"),
    ],
    operands: Operands::Fixed(1, 0),
    shape: |statics, args| {
        changed(statics, args, |dims, axis| {
            times(dims, axis, size(statics, 1));
            Ok(())
        })
    },
    dtype: shape::of_operand,
    rule: CollectiveRule::Linear {
        transpose: |b, eqn, ct| {
            let [axis, over, varying] = [eqn.attrs[0], eqn.attrs[1], eqn.attrs[2]];
            match b.static_of(varying).bool() {
                // The cotangents of the devices are added up, and each keeps its part.
                Some(true) => b.emit(Op::ReduceScatter, &[axis, over], &[ct]),
                _ => b.emit(Op::AllSlice, &[axis, over], &[ct]),
            }
        },
    },
    variance: |statics| match statics[2].bool() {
        Some(true) => Variance::Keeps,
        _ => Variance::Drops,
    },
    sent: |bytes, n| (n - 1) * bytes,
    combine: |statics, group, _| joined(group, axis(statics, 0, &group[0])),
    count: Count::Copy,
    facts: OpFacts::opaque(axes::ALONG),
};
