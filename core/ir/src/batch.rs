//! Batching: a program for one value becomes a program for many, its *lanes*, at once.

use crate::mesh::MeshAxes;
use crate::op::collective::over;
use crate::op::control::shard_map::Parts;
use crate::op::{Lane, apply};
use crate::sharding::{Mesh, ShardingSpec};
use crate::{Aval, Builder, Dim, Op, Program, Shape, Static, Symbol};

pub use crate::op::Batching;

/// A program on all lanes of a batch.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The program. A value that differs between lanes has them along its first axis.
    pub program: Program,
    /// For each result, true if it differs between lanes. Lanes share the others.
    pub each: Vec<bool>,
}

/// Transforms a program for one lane to one for a number of lanes.
///
/// `each` tells for each parameter whether it differs between lanes. With a mesh axis, the specs of values get that axis
/// on the dim of the lanes: those of `sharding_constraint`, `sharded` and `shard_map`. [`check_mesh_axis`] tells why a
/// program does not take one.
///
/// # Errors
///
/// The op of an equation that cannot be applied to a batch, or not with what is known of its shapes.
pub fn batch(program: &Program, each: &[bool], batching: impl Into<Batching>) -> Result<Batch, Op> {
    let batching = batching.into();
    let len = batching.len;
    let mut b = Builder::new();
    let args: Vec<Lane> = program
        .params
        .iter()
        .zip(each)
        .map(|(param, each)| {
            let mut aval: Aval = program.aval(*param).clone();
            if *each {
                let lens = aval.shape.dims().unwrap_or_default().iter().copied();
                aval.shape = Shape(Some([Dim::Known(len)].into_iter().chain(lens).collect()));
            }
            let var = b.param(aval);
            if let Some(name) = program.names.get(*param) {
                b.name(var, name);
            }
            match each {
                true => Lane::Each(var),
                false => Lane::Shared(var),
            }
        })
        .collect();
    let outs = apply(&mut b, program, &args, batching)?;
    let params = args.into_iter().map(Lane::var).collect();
    Ok(Batch {
        each: outs.iter().map(|out| out.is_each()).collect(),
        program: b.finish(params, outs.into_iter().map(Lane::var).collect()),
    })
}

/// Checks that a mesh axis may split the lanes of a program.
///
/// # Errors
///
/// In words, if a mesh does not have the axis, if a spec or a collective of the program uses it, or if the devices of a
/// `shard_map` cannot divide the lanes equally.
pub fn check_mesh_axis(program: &Program, axis: Symbol, len: usize) -> Result<(), String> {
    for eqn in &program.eqns {
        let statics = eqn.attrs.iter().map(|attr| program.attr(*attr));
        for value in statics.clone() {
            if let Some(spec) = value.sharding() {
                check_spec(spec, axis)?;
            }
            if let Some((mesh, specs)) = value.specs() {
                check_axis(mesh, axis)?;
                for spec in specs.iter().flatten() {
                    check_spec(spec, axis)?;
                }
            }
            for inner in value.programs().into_iter().flatten() {
                check_mesh_axis(inner, axis, len)?;
            }
        }
        if eqn.op == Op::ShardMap {
            let statics: Vec<Static> = statics.cloned().collect();
            check_shard_map(&Parts::of(&statics), axis, len)?;
        } else if eqn.op.collective().is_some() {
            let statics: Vec<Static> = statics.cloned().collect();
            if has(over(eqn.op, &statics), axis) {
                return Err(format!("`{}` exchanges values along it", eqn.op));
            }
        }
    }
    Ok(())
}

fn has(axes: &MeshAxes, axis: Symbol) -> bool {
    axes.position(axis).is_some()
}

/// Checks that a mesh has the axis.
///
/// # Errors
///
/// In words, with the mesh.
pub fn check_axis(mesh: &Mesh, axis: Symbol) -> Result<(), String> {
    match mesh.axis_index(axis.as_str()) {
        Some(_) => Ok(()),
        None => Err(format!("there is no such axis in {mesh}")),
    }
}

fn check_spec(spec: &ShardingSpec, axis: Symbol) -> Result<(), String> {
    check_axis(spec.mesh(), axis)?;
    let split = spec.dims().iter().flat_map(|dim| &dim.axes);
    let replicated = spec.replicated_axes().iter();
    let partial = spec.partial().iter().map(|(axis, _)| axis);
    match split
        .chain(replicated)
        .chain(partial)
        .any(|used| used.name == axis)
    {
        true => Err(format!("{spec} uses it already")),
        false => Ok(()),
    }
}

fn check_shard_map(parts: &Parts<'_>, axis: Symbol, len: usize) -> Result<(), String> {
    let Some(at) = parts.mesh.position(axis) else {
        return Err(format!("the mesh {} has no such axis", parts.mesh));
    };
    let mut tilings = parts.ins.iter().chain(parts.outs);
    if let Some(tiling) = tilings.find(|tiling| tiling.0.iter().flatten().any(|name| *name == axis))
    {
        return Err(format!("a spec of `shard_map`, {tiling}, uses it already"));
    }
    let size = parts.mesh.axes()[at].1;
    match len % size {
        0 => Ok(()),
        _ => Err(format!(
            "the {size} devices of a `shard_map` along it cannot divide {len} lanes equally"
        )),
    }
}
