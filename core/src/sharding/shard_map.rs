//! Manual mode: a function of the parts of its argument that each device has.

use crate::error::ShardingFault;
use crate::events::{self, Event};
use crate::graph::recording::UntracedGuard;
use crate::graph::seq_no::seq_no_of_all;
use crate::sharding::context::{ContextGuard, Positions};
use crate::sharding::placement::Devices;
use crate::sharding::{Mesh, ShardingSpec, Specs};
use crate::tensor::record::record_many;
use crate::transform::{
    Outcome, ScopeGuard, TransformSite, cut, physical, stand_ins, without_shapes,
};
use crate::tree::arithmetic::paths;
use crate::tree::{leaves, with_physical};
use crate::{Aval, Result, Tensor, Tree};
use gradloom_ir::mesh::{MeshAxes, Tiling};
use gradloom_ir::op::control::shard_map::{check_results, variance};
use gradloom_ir::{Builder, Op, Program, Programs, Static, pass};
use std::sync::Arc;

/// Returns the function that runs `f` on each device of a mesh, on the parts of the argument that the device has.
///
/// `in_specs` say how the leaves of the argument are divided, and `out_specs` how the results of the devices become the
/// leaves of the result: see [`Specs`]. A leaf that is not divided along an axis of the mesh is equal on the devices
/// along it. Each device has parts of the same shape, so lengths must be multiples of the numbers of parts.
///
/// `f` runs once, on values without elements that have the shape of one part. Devices exchange values by collectives:
/// [`all_reduce`](super::all_reduce), [`all_gather`](super::all_gather), [`reduce_scatter`](super::reduce_scatter),
/// [`all_to_all`](super::all_to_all), [`ppermute`](super::ppermute), [`pmean`](super::pmean),
/// [`broadcast`](super::broadcast). A tensor that `f` captures is the same on all devices.
///
/// ```
/// # use gradloom::{Tensor, grad};
/// # use gradloom::sharding::{Mesh, ShardingSpec, pmean, shard_map};
/// # use std::sync::Arc;
/// let mesh = Arc::new(Mesh::new("m", &[("data", 2)])?);
/// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
/// let loss = |(w, x): &(Tensor, Tensor)| pmean(&x.matmul(w).square().mean(..), "data");
/// let loss = shard_map(loss, &mesh, (None, rows), None);
///
/// let w = Tensor::from([1.0f32, -1.0]);
/// let x = Tensor::from([[1.0f32, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0]]);
/// assert_eq!(loss(&(w.clone(), x.clone())).item::<f32>(), 1.5);
/// // The gradient is that of the whole function: devices add up their parts.
/// let slope = grad(|w: &Tensor| loss(&(w.clone(), x.clone())))(&w);
/// assert_eq!(slope.to_vec::<f32>(), [2.5, -0.5]);
/// # Ok::<(), gradloom::sharding::ShardingError>(())
/// ```
///
/// # Derivatives
///
/// [`grad`](crate::grad) and its relatives differentiate the function as a whole: its derivative is a program for the
/// devices, too. A value that is equal on the devices along an axis counts once, and a derivative that is taken *inside*
/// of `f` counts the result of each device: `grad` of a loss of the part of a device is the gradient of that part, and
/// `grad` of a loss that `all_reduce` made is that of its sum over all devices.
///
/// # Panics
///
/// The returned function panics if a spec does not fit its leaf, if a result differs between devices along an axis that
/// its spec does not name, if a loop or a conditional of `f` has a collective, or if `f` reads a value. If `f` returns
/// `Result`, these are errors instead. So are errors of a device: see [`Error::Device`](crate::Error::Device).
#[track_caller]
pub fn shard_map<X, R, F>(
    f: F,
    mesh: &Arc<Mesh>,
    in_specs: impl Into<Specs>,
    out_specs: impl Into<Specs>,
) -> impl Fn(&X) -> R::Wrap<R::Tree>
where
    X: Tree,
    R: Outcome,
    F: Fn(&X) -> R,
{
    let map = ShardMap::new(f, mesh, in_specs, out_specs);
    move |x: &X| map.call(x)
}

/// A function that runs on each device of a mesh: see [`shard_map`].
#[derive(Clone, Debug)]
pub struct ShardMap<F> {
    f: F,
    mesh: Arc<Mesh>,
    in_specs: Specs,
    out_specs: Specs,
    made: TransformSite,
}

const CALL: &str = "shard_map";

impl<F> ShardMap<F> {
    /// Returns the function that runs `f` on each device.
    #[track_caller]
    pub fn new(
        f: F,
        mesh: &Arc<Mesh>,
        in_specs: impl Into<Specs>,
        out_specs: impl Into<Specs>,
    ) -> ShardMap<F> {
        ShardMap {
            f,
            mesh: mesh.clone(),
            in_specs: in_specs.into(),
            out_specs: out_specs.into(),
            made: TransformSite::by(CALL),
        }
    }

    /// Returns the result of all devices.
    ///
    /// # Panics
    ///
    /// As the function that [`shard_map`] returns.
    pub fn call<X, R>(&self, x: &X) -> R::Wrap<R::Tree>
    where
        X: Tree,
        R: Outcome,
        F: Fn(&X) -> R,
    {
        R::wrap_made(self.try_call(x), self.made)
    }

    fn try_call<X, R>(&self, x: &X) -> Result<R::Tree>
    where
        X: Tree,
        R: Outcome,
        F: Fn(&X) -> R,
    {
        let refused = |fault: ShardingFault| fault.into_error(CALL);
        let args = leaves(x);
        let in_specs = self.in_specs.of_leaves(x, "in_specs").map_err(refused)?;
        let out_specs = self.out_specs.all();
        let named = in_specs.iter().flatten().chain(out_specs);
        let devices = Devices::of(&self.mesh, named).map_err(refused)?;
        let (ins, locals) = parts(&devices, &args, &in_specs, &paths(x, "argument"))?;
        let run = |inputs: &[Tensor]| R::run(|| (self.f)(&with_physical(x, inputs)));
        let Body {
            program,
            captured,
            y,
        } = body(&devices, &locals, run)?;
        let results = leaves(&y);
        let out_paths = paths(&y, "result");
        let specs = self.out_specs.of_leaves(&y, "out_specs").map_err(refused)?;
        let outs = results.iter().zip(&specs).zip(&out_paths);
        let outs = outs.map(|((y, spec), path)| devices.tiling(spec.as_ref(), y.aval(), path));
        let outs = outs.collect::<Result<Vec<Tiling>, _>>().map_err(refused)?;
        let whole = captured
            .iter()
            .map(|x| Tiling::whole(x.aval().shape().len()));
        let ins: Vec<Tiling> = ins.into_iter().chain(whole).collect();
        check(&program, devices.axes(), [&ins, &outs], &out_paths).map_err(refused)?;
        let n_outs = outs.len();
        let statics: [Static; 4] = [
            Programs::new(vec![program]).into(),
            devices.axes().clone().into(),
            ins.into(),
            outs.into(),
        ];
        let args = physical(&args);
        let args: Vec<&Tensor> = args.iter().chain(&captured).collect();
        let outs = record_many(Op::ShardMap, statics, &args, &[], n_outs)?;
        Ok(with_physical(&y, &outs))
    }
}

/// Returns how each argument is divided, and the avals of its parts.
fn parts(
    devices: &Devices,
    args: &[Tensor],
    specs: &[Option<ShardingSpec>],
    paths: &[String],
) -> Result<(Vec<Tiling>, Vec<Aval>)> {
    let (mut tilings, mut locals) = (Vec::new(), Vec::new());
    for ((x, spec), path) in args.iter().zip(specs).zip(paths) {
        let tiling = devices.tiling(spec.as_ref(), x.aval(), path);
        let tiling = tiling.map_err(|fault| fault.into_error(CALL))?;
        let local = devices.local(&tiling, x.aval(), path);
        locals.push(local.map_err(|fault| fault.into_error(CALL))?);
        tilings.push(tiling);
    }
    Ok((tilings, locals))
}

/// A function of parts as a program, `parts of arguments..., captured... -> parts of results...`.
struct Body<Y> {
    program: Program,
    /// Values that are the same on all devices.
    captured: Vec<Tensor>,
    y: Y,
}

/// Traces a function for the devices of a mesh.
fn body<Y: Tree>(
    devices: &Devices,
    locals: &[Aval],
    f: impl FnOnce(&[Tensor]) -> Result<Y>,
) -> Result<Body<Y>> {
    let scope = ScopeGuard::open();
    let since = seq_no_of_all();
    let mut inputs = stand_ins(locals, &scope);
    let context = ContextGuard::open(devices.clone(), scope.scope().clone());
    let reads = UntracedGuard::new();
    let y = f(&inputs)?;
    drop(reads);
    let positions = context.close();
    let n_args = inputs.len();
    inputs.extend(positions.iter().map(|(_, stand_in)| stand_in.clone()));
    // Devices also compute what does not depend on the arguments, such as a collective of a constant.
    let part = cut(&inputs, since, &leaves(&y), false);
    drop(scope);
    events::emit(Event::Traced {
        equations: part.program.eqns.len(),
    });
    let (program, captured) = without_shapes(part, inputs.len());
    let program = with_positions(program, n_args, &positions);
    Ok(Body {
        program: pass::simplify(pass::without_variance(&program)),
        captured,
        y,
    })
}

/// Replaces the parameters after the first `n_args`, one for each position, by equations.
fn with_positions(mut program: Program, n_args: usize, positions: &Positions) -> Program {
    let params: Vec<_> = program
        .params
        .drain(n_args..n_args + positions.len())
        .collect();
    let mut b = Builder::after(&program);
    for (param, (group, _)) in params.into_iter().zip(positions) {
        let over = b.attr(group.clone());
        b.append(gradloom_ir::Eqn {
            outs: [param].into(),
            op: Op::AxisIndex,
            attrs: [over].into(),
            args: [].into(),
        });
    }
    program.eqns.iter().for_each(|eqn| b.append(eqn.clone()));
    b.finish(program.params, program.outs)
}

/// Checks what the rule of the op checks, with the paths of the results.
fn check(
    program: &Program,
    mesh: &MeshAxes,
    [ins, outs]: [&[Tiling]; 2],
    paths: &[String],
) -> Result<(), ShardingFault> {
    let program_fault = |reason| ShardingFault::Program { reason };
    let varies = variance(program, mesh, ins).map_err(program_fault)?;
    match check_results(program, mesh, outs, &varies).map_err(program_fault)? {
        None => Ok(()),
        Some((result, axes)) => Err(ShardingFault::Differs {
            path: paths[result].clone(),
            axes: axes
                .axes()
                .iter()
                .map(|(name, _)| name.to_string())
                .collect(),
        }),
    }
}
