use super::{CollectiveOp, CollectiveRule, OVER, Variance, sum};
use crate::op::{Count, OpFacts, Operands, axes, shape};

/// `pvary[over] x`: `x`, which is equal on all devices of a group, as a value that may differ between them.
///
/// It moves nothing. It marks where the cotangents of the devices are added up.
pub(in crate::op) static OP: CollectiveOp = CollectiveOp {
    name: "pvary",
    statics: &[OVER],
    operands: Operands::Fixed(1, 0),
    shape: |_, args| Ok(args[0].shape.clone()),
    dtype: shape::of_operand,
    rule: CollectiveRule::Linear {
        transpose: |b, eqn, ct| sum(b, ct, eqn.attrs[0]),
    },
    variance: |_| Variance::Adds,
    sent: |_, _| 0,
    combine: |_, group, i| group[i].clone(),
    count: Count::View,
    facts: OpFacts::opaque(axes::ELEMENTWISE).cheap(),
};
