//! Functions of whole tensors that the devices of a mesh compute together.

use crate::error::ShardingFault;
use crate::observe::with_lines;
use crate::sharding::constants::with_constants;
use crate::sharding::context::with_mesh;
use crate::sharding::placement::check_spec;
use crate::sharding::tensor::constrained;
use crate::sharding::{DimSharding, Explanation, Mesh, ShardingSpec, Specs, Speed};
use crate::tensor::record::record_many;
use crate::transform::{Outcome, Traced, TransformSite, physical, trace_body};
use crate::tree::arithmetic::paths;
use crate::tree::{leaves, with_physical};
use crate::{Result, Tensor, Tree};
use gradloom_ir::spmd::{Constraints, Sharded, shard};
use gradloom_ir::{Op, Program, Programs, Static};
use std::sync::Arc;

/// Returns the function with the values of `f`, which the devices of a mesh compute together.
///
/// `f` is a function of whole tensors. `in_specs` and `out_specs` place the leaves of its argument and of its result: see
/// [`Specs`]. `None` leaves the choice to propagation, and so do open dims. An argument without a spec has that of
/// [`Tensor::sharding`], and so has a value that `f` captures. A result with a spec carries it.
/// [`with_sharding`](super::with_sharding) places values inside of `f`. Lengths need not be multiples of the numbers of
/// parts.
///
/// Each op is divided along the axes that it declares, by the choice that sends the fewest bytes, and collectives are
/// inserted where an operand is placed in another way. The derivatives are those of `f`, divided in turn.
///
/// ```
/// # use gradloom::{Tensor, grad};
/// # use gradloom::sharding::{Mesh, ShardingSpec, sharded};
/// # use std::sync::Arc;
/// let mesh = Arc::new(Mesh::new("m", &[("data", 2)])?);
/// let rows = ShardingSpec::split(&mesh, &[&["data"], &[]])?;
/// let loss = |(w, x): &(Tensor, Tensor)| x.matmul(w).square().mean(..);
/// let loss = sharded(loss, &mesh, (None, rows), None);
///
/// let w = Tensor::from([1.0f32, -1.0]);
/// let x = Tensor::from([[1.0f32, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0]]);
/// assert_eq!(loss(&(w.clone(), x.clone())).item::<f32>(), 1.5);
/// let slope = grad(|w: &Tensor| loss(&(w.clone(), x.clone())))(&w);
/// assert_eq!(slope.to_vec::<f32>(), [2.5, -0.5]);
/// # Ok::<(), gradloom::sharding::ShardingError>(())
/// ```
///
/// # Panics
///
/// The returned function panics if a spec does not fit its leaf, or `f` reads a value. If `f` returns `Result`, these are
/// errors instead.
#[track_caller]
pub fn sharded<X, R, F>(
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
    let made = TransformSite::by(CALL);
    let (mesh, in_specs, out_specs) = (mesh.clone(), in_specs.into(), out_specs.into());
    move |x: &X| {
        let run = || {
            let Placed {
                program,
                args,
                specs,
                y,
            } = placed(CALL, &f, &mesh, [&in_specs, &out_specs], x)?;
            let n_outs = specs[1].len();
            let wanted = specs[1].clone();
            let [ins, outs] = specs.map(|specs| Static::Specs(mesh.clone(), specs));
            let statics = [Programs::new(vec![program]).into(), ins, outs];
            let args: Vec<&Tensor> = args.iter().collect();
            let outs = record_many(Op::Sharded, statics, &args, &[], n_outs)?;
            let outs = outs.into_iter().zip(wanted);
            let outs: Vec<Tensor> = outs
                .map(|(y, spec)| match spec {
                    Some(spec) => constrained(&y, &spec),
                    None => Ok(y),
                })
                .collect::<Result<_>>()?;
            Ok(with_physical(&y, &outs))
        };
        R::wrap_made(run(), made)
    }
}

const CALL: &str = "sharded";

/// Returns what the devices of a mesh compute and send for `f`, as [`sharded`] divides it.
///
/// It prints as a table: each value with its spec, each collective with the bytes that a device sends and the line of the
/// caller's code that needs it, and estimates of time on devices of a speed. [`Explanation::by_line`] has the bytes of
/// each line. Code in a traced function or in a closure has lines, and a derivative has those of what it differentiates. Only the shapes of `x` are read, so it may be larger than this machine could hold.
///
/// ```
/// # use gradloom::{DType, Tensor};
/// # use gradloom::sharding::{Mesh, ShardingSpec, Speed, explain_sharding};
/// # use std::sync::Arc;
/// let mesh = Arc::new(Mesh::new("m", &[("data", 8)])?);
/// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
/// let total = |x: &Tensor| x.sum(..);
/// let x = Tensor::zeros([1 << 30], DType::F32);
/// let explained = explain_sharding(total, &mesh, rows, None, &x, &Speed::default())?;
/// assert_eq!(explained.collectives[0].name, "all_reduce");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If a spec does not fit its leaf, or `f` reads a value.
pub fn explain_sharding<X, R, F>(
    f: F,
    mesh: &Arc<Mesh>,
    in_specs: impl Into<Specs>,
    out_specs: impl Into<Specs>,
    x: &X,
    speed: &Speed,
) -> Result<Explanation>
where
    X: Tree,
    R: Outcome,
    F: Fn(&X) -> R,
{
    let specs = [&in_specs.into(), &out_specs.into()];
    Ok(divided("explain_sharding", f, mesh, specs, x)?.explain(speed))
}

/// Returns a page for the browser that shows what the devices of a mesh compute and send for `f`: the graph, where each
/// value has its spec and what is sent of it, and the report of [`explain_sharding`].
///
/// ```
/// # use gradloom::{DType, Tensor};
/// # use gradloom::sharding::{Mesh, ShardingSpec, Speed, sharding_page};
/// # use std::sync::Arc;
/// let mesh = Arc::new(Mesh::new("m", &[("data", 8)])?);
/// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
/// let total = |x: &Tensor| x.sum(..);
/// let x = Tensor::zeros([1 << 30], DType::F32);
/// let page = sharding_page("total", total, &mesh, rows, None, &x, &Speed::default())?;
/// assert!(page.html().contains("all_reduce"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If a spec does not fit its leaf, or `f` reads a value.
#[cfg(feature = "view")]
pub fn sharding_page<X, R, F>(
    title: &str,
    f: F,
    mesh: &Arc<Mesh>,
    in_specs: impl Into<Specs>,
    out_specs: impl Into<Specs>,
    x: &X,
    speed: &Speed,
) -> Result<gradloom_view::Page>
where
    X: Tree,
    R: Outcome,
    F: Fn(&X) -> R,
{
    let specs = [&in_specs.into(), &out_specs.into()];
    let sharded = divided("sharding_page", f, mesh, specs, x)?;
    Ok(gradloom_view::Page::of_sharded(title, &sharded, speed))
}

/// Divides a function over the devices of a mesh.
fn divided<X, R>(
    call: &'static str,
    f: impl Fn(&X) -> R,
    mesh: &Arc<Mesh>,
    specs: [&Specs; 2],
    x: &X,
) -> Result<Sharded>
where
    X: Tree,
    R: Outcome,
{
    let traced = with_lines(|| placed(call, f, mesh, specs, x));
    let Placed { program, specs, .. } = traced?;
    let [params, outs] = specs;
    let sharded = shard(&program, mesh, &Constraints { params, outs });
    sharded.map_err(|error| {
        let reason = error.to_string();
        ShardingFault::Program { reason }.into_error(call)
    })
}

/// A function as a program on whole values, `x..., captured... -> y...`.
struct Placed<Y> {
    program: Program,
    args: Vec<Tensor>,
    /// The specs of parameters and results.
    specs: [Vec<Option<ShardingSpec>>; 2],
    y: Y,
}

fn placed<X, R>(
    call: &'static str,
    f: impl Fn(&X) -> R,
    mesh: &Arc<Mesh>,
    [in_specs, out_specs]: [&Specs; 2],
    x: &X,
) -> Result<Placed<R::Tree>>
where
    X: Tree,
    R: Outcome,
{
    let refused = |fault: ShardingFault| fault.into_error(call);
    let given = in_specs.of_leaves(x, "in_specs").map_err(refused)?;
    let own = leaves(x);
    let Traced {
        program,
        captured,
        y,
    } = with_mesh(mesh, || trace_body(f, x))?;
    let (program, captured) = with_constants(program, captured, own.len());
    let results = leaves(&y);
    let wanted = out_specs.of_leaves(&y, "out_specs").map_err(refused)?;
    let place = |leaf: &Tensor, spec: Option<ShardingSpec>, path: &String| {
        let spec = spec.map(|spec| of_rank(spec, leaf, path, mesh));
        spec.transpose().map_err(refused)
    };
    let ins = own.iter().zip(given).zip(paths(x, "argument"));
    let ins = ins.map(|((leaf, spec), path)| place(leaf, carried_or(spec, leaf, mesh), &path));
    let mut ins = ins.collect::<Result<Vec<_>>>()?;
    ins.extend(captured.iter().map(|x| carried_or(None, x, mesh)));
    let outs = results.iter().zip(wanted).zip(paths(&y, "result"));
    let outs = outs.map(|((leaf, spec), path)| place(leaf, spec, &path));
    let outs = outs.collect::<Result<Vec<_>>>()?;
    let args = physical(&own).into_iter().chain(captured).collect();
    Ok(Placed {
        program,
        args,
        specs: [ins, outs],
        y,
    })
}

/// Returns the spec that is given for a leaf, or that which it carries, if it is one of the mesh.
pub(super) fn carried_or(
    given: Option<ShardingSpec>,
    leaf: &Tensor,
    mesh: &Arc<Mesh>,
) -> Option<ShardingSpec> {
    let carried = || leaf.sharding().filter(|spec| spec.mesh() == mesh).cloned();
    given.or_else(carried)
}

/// Returns a spec with a dim for each physical axis of a leaf.
pub(super) fn of_rank(
    spec: ShardingSpec,
    leaf: &Tensor,
    path: &str,
    mesh: &Arc<Mesh>,
) -> Result<ShardingSpec, ShardingFault> {
    check_spec(&spec, mesh)?;
    let Some(rest) = leaf.rank().checked_sub(spec.rank()) else {
        return Err(ShardingFault::Rank {
            path: path.to_owned(),
            aval: leaf.aval().clone(),
            dims: spec.rank(),
            spec: spec.to_string(),
        });
    };
    let batch = vec![DimSharding::open(Vec::new()); leaf.batch_dims()];
    let rest = vec![DimSharding::closed(Vec::new()); rest];
    let dims = [&batch[..], spec.dims(), &rest].concat();
    let replicated = spec.replicated_axes().to_vec();
    Ok(ShardingSpec::new(mesh, dims, replicated, Vec::new())?)
}
