use super::control::sharded::with_lane_dim;
use super::lanes::{Lane, Lanes};
use super::nd_array::{Application, NdArray};
use super::{AxesRule, Count, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Builder, Fault, Op, StaticKind};

/// `sharding_constraint[spec] x`: `x`, which is placed on the devices of a mesh as the spec says.
///
/// Sharding of programs reads it. The derivative has the same spec.
pub(super) static OP: Linear = Linear {
    name: "sharding_constraint",
    operands: Operands::Fixed(1, 0),
    statics: &[StaticKind::Sharding.named("spec")],
    shape: |statics, args| {
        if let (Some(spec), Some(dims)) = (statics[0].sharding(), args[0].shape.dims()) {
            spec.check_rank(dims.len())
                .map_err(|error| Fault::Sharding {
                    reason: error.to_string(),
                })?;
        }
        Ok(args[0].shape.clone())
    },
    dtype: shape::of_operand,
    methods: &[],
    transpose: |b, eqn, ct| b.emit(Op::ShardingConstraint, &eqn.attrs, &[ct]),
    kernel: Kernel::ShardingConstraint,
    count: Count::View,
    facts: OpFacts::view(AxesRule {
        batch,
        ..axes::ELEMENTWISE
    }),
    samples: &[
        "(x: f64[2, 3]) { y = sharding_constraint[spec=mesh @m <[\"x\"=2, \"y\"=2]> sharding<@m, [{\"x\", ?}, {}p1], replicated={\"y\"}>] x return y }",
        "(x: f64[4]) { y = sharding_constraint[spec=mesh @m <[\"x\"=4], device_ids=[3, 2, 1, 0]> sharding<@m, [{\"x\":(2)2}]>] x return y }",
        "(x: i64[]) { y = sharding_constraint[spec=mesh @m <[\"x\"=2]> sharding<@m, []>] x return y }",
        "(x: f64[0]) { y = sharding_constraint[spec=mesh @m <[\"x\"=2]> sharding<@m, [{\"x\"}]>] x return y }",
    ],
};

/// Lanes are an open dim that no axis splits, or a dim that the axis of the batch splits.
fn batch(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let statics = of.statics();
    let spec = statics[0].sharding()?;
    let spec = with_lane_dim(spec, of.mesh_axis)?;
    let (spec, x) = (b.attr(spec), of.each(b, 0)?);
    let y = b.emit(Op::ShardingConstraint, &[spec], &[x]);
    Some(vec![Lane::Each(y)])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.same_order()
}
