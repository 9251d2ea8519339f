use super::{CollectiveOp, CollectiveRule, OVER, Variance};
use crate::op::{Count, NdArray, OpFacts, Operands, axes, lanes};
use crate::{DType, Shape};

/// `axis_index[over]`: the position of the device in its group, an `i64` of rank 0.
pub(in crate::op) static OP: CollectiveOp = CollectiveOp {
    name: "axis_index",
    statics: &[OVER],
    operands: Operands::Fixed(0, 0),
    shape: |_, _| Ok(Shape::scalar()),
    dtype: |_, _| Ok(Some(DType::I64)),
    rule: CollectiveRule::Zero("an index"),
    variance: |_| Variance::Adds,
    sent: |_, _| 0,
    combine: |_, _, i| NdArray::build(&[], |_| i as f64),
    count: Count::Copy,
    facts: OpFacts::opaque(axes::opaque(lanes::without_operands)),
};
