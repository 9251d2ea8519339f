use super::{
    CollectiveOp, CollectiveRule, OVER, Variance, axis, changed, divided, joined, part, size, times,
};
use crate::op::{Count, OpFacts, Operands, axes, lanes, shape};
use crate::{Op, StaticKind};

/// `all_to_all[split, concat, over] x`: each value of a group is cut along the axis `split`, and device `i` gets
/// part `i` of each, one after the other along the axis `concat`.
pub(in crate::op) static OP: CollectiveOp = CollectiveOp {
    name: "all_to_all",
    statics: &[
        StaticKind::Axis.named("split"),
        StaticKind::Axis.named("concat"),
        OVER,
    ],
    operands: Operands::Fixed(1, 0),
    shape: |statics, args| {
        changed(statics, args, |dims, split| {
            let n = size(statics, 2);
            divided(dims, split, n)?;
            if let Some(concat) = shape::known_axis(&statics[1], dims.len())? {
                times(dims, concat, n);
            }
            Ok(())
        })
    },
    dtype: shape::of_operand,
    rule: CollectiveRule::Linear {
        transpose: |b, eqn, ct| {
            let [split, concat, over] = [eqn.attrs[0], eqn.attrs[1], eqn.attrs[2]];
            b.emit(Op::AllToAll, &[concat, split, over], &[ct])
        },
    },
    variance: |_| Variance::Keeps,
    sent: super::sent_parts,
    combine: |statics, group, i| {
        let [split, concat] = [0, 1].map(|at| axis(statics, at, &group[0]));
        let parts = group.iter().map(|x| part(x, split, i, group.len()));
        joined(&parts.collect::<Vec<_>>(), concat)
    },
    count: Count::Copy,
    facts: OpFacts::opaque(axes::opaque(lanes::along)),
};
