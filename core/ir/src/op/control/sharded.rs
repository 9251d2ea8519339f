//! `sharded`: a program that is divided over the devices of a mesh.

use super::body;
use super::{Control, avals, check_args, check_number, control_op};
use crate::op::lanes::{Lane, Lanes};
use crate::op::{Application, NdArray};
use crate::sharding::{AxisRef, DimSharding, Mesh, ShardingSpec};
use crate::{Aval, Builder, Fault, Op, Program, Programs, Static, StaticKind, Symbol, Var};
use std::sync::Arc;

/// `y... = sharded[body, ins, outs] x...`: the results of the body, `x... -> y...`, computed by the devices of a
/// mesh.
///
/// `ins` and `outs` are the specs of operands and results. One without a spec is placed by propagation. The body is the
/// program on whole values, so its derivative is that of the function, and is divided in turn.
pub(crate) struct Sharded;

control_op!(
    Sharded,
    "sharded",
    &[
        StaticKind::Programs.named("body"),
        StaticKind::Specs.named("ins"),
        StaticKind::Specs.named("outs"),
    ],
    batch,
    &[
        // Devices divide the examples, of which there is no equal number for each.
        "(x: f64[3, 2], w: f64[2, 2]) { y = sharded[body=<(x: f64[3, 2], w: f64[2, 2]) { h = matmul x, w, like x, like w t = tanh h y = sum[axes=[0], keepdims=false] t, like t return y }>, ins=mesh @m <[\"d\"=2]> (sharding<@m, [{\"d\"}, {}]>, sharding<@m, [{}, {}]>), outs=mesh @m <[\"d\"=2]> (_)] x, w return y }",
        // A maximum and an exponential over the axis that is divided, and a constraint inside.
        "(x: f64[2, 4]) { y, z = sharded[body=<(x: f64[2, 4]) { a = sharding_constraint[spec=mesh @m <[\"d\"=2, \"m\"=2]> sharding<@m, [{\"d\"}, {\"m\"}]>] x y = softmax[axis=-1] a z = max[axes=[1], keepdims=false] x return y, z }>, ins=mesh @m <[\"d\"=2, \"m\"=2]> (_), outs=mesh @m <[\"d\"=2, \"m\"=2]> (_, sharding<@m, [{\"d\"}]>)] x return y, z }",
        "(x: f64[4], w: f64[4]) { y = sharded[body=<(x: f64[4], w: f64[4]) { a = sin x y = mul a, w return y }>, ins=mesh @m <[\"d\"=2]> (sharding<@m, [{\"d\"}]>, _), outs=mesh @m <[\"d\"=2]> (sharding<@m, [{\"d\"}]>)] x, w return y }",
    ]
);

/// The static arguments of a `sharded`.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// `x... -> y...`.
    pub body: &'a Program,
    /// The devices.
    pub mesh: &'a Arc<Mesh>,
    /// The specs of the operands.
    pub ins: &'a [Option<ShardingSpec>],
    /// The specs of the results.
    pub outs: &'a [Option<ShardingSpec>],
}

impl<'a> Parts<'a> {
    /// Returns the static arguments of a `sharded`.
    ///
    /// # Panics
    ///
    /// If they are those of another op.
    pub fn of(statics: &'a [Static]) -> Parts<'a> {
        const OTHER: &str = "the static arguments of a `sharded`";
        let (mesh, ins) = statics[1].specs().expect(OTHER);
        let (_, outs) = statics[2].specs().expect(OTHER);
        Parts {
            body: &statics[0].programs().expect(OTHER)[0],
            mesh,
            ins,
            outs,
        }
    }
}

/// Emits a `sharded`.
pub(crate) fn emit(
    b: &mut Builder,
    body: Program,
    mesh: &Arc<Mesh>,
    [ins, outs]: [Vec<Option<ShardingSpec>>; 2],
    args: &[Var],
) -> Vec<Var> {
    let n_outs = outs.len();
    let specs = |specs| Static::Specs(mesh.clone(), specs);
    let attrs = [
        b.attr(Programs::new(vec![body])),
        b.attr(specs(ins)),
        b.attr(specs(outs)),
    ];
    b.emit_many(Op::Sharded, &attrs, args, n_outs)
}

impl Control for Sharded {
    fn infer(&self, statics: &[Static], args: &[&Aval]) -> Result<Vec<Aval>, Fault> {
        let Parts {
            body,
            mesh,
            ins,
            outs,
        } = Parts::of(statics);
        check_number(ins.len(), body.params.len())?;
        check_number(outs.len(), body.outs.len())?;
        let refused = |reason: String| Err(Fault::Sharding { reason });
        if statics[2].specs().is_none_or(|(other, _)| other != mesh) {
            return refused(format!("the results have another mesh than {mesh}"));
        }
        let params = avals(body, &body.params);
        check_args(args, &params)?;
        let found = avals(body, &body.outs);
        let values = params.iter().zip(ins).chain(found.iter().zip(outs));
        for (aval, spec) in values {
            let (Some(dims), Some(spec)) = (aval.shape.dims(), spec) else {
                continue;
            };
            if spec.mesh() != mesh {
                return refused(format!("{spec} is not a spec of {mesh}"));
            }
            if !spec.partial().is_empty() {
                return refused(format!("{spec} is partial"));
            }
            if let Err(error) = spec.check_rank(dims.len()) {
                return refused(error.to_string());
            }
        }
        Ok(found)
    }
}

impl Sharded {
    /// Returns the results by definition.
    pub(in crate::op) fn reference(&self, of: &Application<'_>) -> Vec<NdArray> {
        crate::op::evaluate(Parts::of(of.statics).body, of.args)
    }
}

/// Lanes are computed together. Their axis is an open dim of a spec, or split by the axis of the batch.
fn batch(b: &mut Builder, of: &Lanes<'_>) -> Option<Vec<Lane>> {
    let statics = of.statics();
    let Parts {
        body,
        mesh,
        ins,
        outs,
    } = Parts::of(&statics);
    let each: Vec<bool> = of.args.iter().map(|arg| arg.is_each()).collect();
    let none = vec![false; body.outs.len()];
    let (all, out_each) = body::lanes(body, &each, &none, of.batching())?;
    let args: Vec<Var> = of.args.iter().map(|arg| arg.var()).collect();
    let lanes = |specs: &[_], each: &[bool]| with_lanes(specs, each, of.mesh_axis);
    let specs = [lanes(ins, &each)?, lanes(outs, &out_each)?];
    let outs = emit(b, all, mesh, specs, &args);
    Some(Lane::marked(outs, &out_each))
}

fn with_lanes(
    specs: &[Option<ShardingSpec>],
    each: &[bool],
    mesh_axis: Option<Symbol>,
) -> Option<Vec<Option<ShardingSpec>>> {
    let one = |(spec, each): (&Option<ShardingSpec>, &bool)| match spec {
        Some(spec) if *each => Some(Some(with_lane_dim(spec, mesh_axis)?)),
        spec => Some(spec.clone()),
    };
    specs.iter().zip(each).map(one).collect()
}

/// Returns the spec of a value with an axis of lanes before its axes. It is open, or split by an axis of the mesh.
pub(crate) fn with_lane_dim(
    spec: &ShardingSpec,
    mesh_axis: Option<Symbol>,
) -> Option<ShardingSpec> {
    let lanes = match mesh_axis {
        Some(axis) => DimSharding::closed(vec![AxisRef::new(axis.as_str())]),
        None => DimSharding::open(Vec::new()),
    };
    let dims = [&[lanes], spec.dims()].concat();
    let (replicated, partial) = (spec.replicated_axes().to_vec(), spec.partial().to_vec());
    ShardingSpec::new(spec.mesh(), dims, replicated, partial).ok()
}
