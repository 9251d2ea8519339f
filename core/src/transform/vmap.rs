//! Batching: a function of one example becomes a function of many, its *lanes*, at once.

use super::lanes_program::on_all_lanes;
use super::outcome::TransformSite;
use super::trace::{GraphPart, ScopeGuard, cut, stand_ins};
use super::{LaneAxes, Outcome, VmapAxes, trace};
use crate::error::VmapFault;
use crate::events::{self, Event};
use crate::graph::cut_program::Derivation;
use crate::graph::recording::UntracedGuard;
use crate::graph::seq_no::seq_no_of_all;
use crate::raise::catch;
use crate::tensor::replay::{bind_shapes, replay_bound};
use crate::tree::arithmetic::paths;
use crate::tree::{leaves, with_leaves};
use crate::{Aval, Result, Tensor, Tree};
use gradloom_ir::batch::{Batch, Batching, check_mesh_axis};

/// Returns the function that applies `f` to each lane of its argument.
///
/// All leaves of the argument have the lanes along axis 0, and so have the results. `f` runs once, on
/// values without elements that have the shape of one lane. The ops that it records are then applied
/// to all lanes at once.
///
/// ```
/// # use gradloom::{Tensor, grad, vmap};
/// let dot = |(x, y): &(Tensor, Tensor)| (x * y).sum(..);
/// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// let y = Tensor::from([[1.0f32, 1.0], [1.0, 10.0]]);
/// assert_eq!(vmap(dot)(&(x.clone(), y)).to_vec::<f32>(), [3.0, 43.0]);
///
/// let per_example = vmap(grad(|x: &Tensor| x.square().sum(..)));
/// assert_eq!(per_example(&x).to_vec::<f32>(), [2.0, 4.0, 6.0, 8.0]);
/// ```
///
/// # Panics
///
/// The returned function panics if a leaf has no axis 0, if the leaves have different numbers of
/// lanes, or if `f` reads a value of a lane. If `f` returns `Result`, these are errors instead.
#[track_caller]
pub fn vmap<X, R, F>(f: F) -> impl Fn(&X) -> R::Wrap<R::Tree>
where
    X: Tree,
    R: Outcome,
    F: Fn(&X) -> R,
{
    let vmap = Vmap::new(f);
    move |x: &X| vmap.call(x)
}

/// A function that is applied to each lane of its argument, with a choice of axes: see [`vmap`].
///
/// ```
/// # use gradloom::{Tensor, Vmap};
/// let scale = |(x, factor): &(Tensor, Tensor)| x * factor;
/// // The lanes are the columns of `x`, and share `factor`.
/// let columns = Vmap::new(scale).in_axes((1, None)).out_axes(1);
/// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// let y = columns.call(&(x, Tensor::from([1.0f32, 10.0])));
/// assert_eq!(y.to_vec::<f32>(), [1.0, 2.0, 30.0, 40.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Vmap<F> {
    f: F,
    axes: VmapAxes,
    made: TransformSite,
}

impl<F> Vmap<F> {
    /// Returns the function with its lanes along axis 0 of each leaf of argument and result.
    #[track_caller]
    pub fn new(f: F) -> Vmap<F> {
        Vmap {
            f,
            axes: 0.into(),
            made: TransformSite::by("vmap"),
        }
    }

    /// Sets the axis of the lanes of each part of the argument. Lanes share a part with `None`.
    pub fn in_axes(mut self, axes: impl Into<LaneAxes>) -> Vmap<F> {
        self.axes.in_axes = axes.into();
        self
    }

    /// Sets the axis of the lanes of each part of the result. `None` returns a part that all lanes
    /// share, without an axis for them.
    pub fn out_axes(mut self, axes: impl Into<LaneAxes>) -> Vmap<F> {
        self.axes = self.axes.out_axes(axes);
        self
    }

    /// Sets the number of lanes, which is needed only if lanes share all arguments.
    pub fn axis_size(mut self, n: usize) -> Vmap<F> {
        self.axes = self.axes.axis_size(n);
        self
    }

    /// Sets the axis of a mesh that splits the lanes.
    ///
    /// It changes the specs in the function: those of [`with_sharding`](crate::sharding::with_sharding), of annotations
    /// with mesh axes, of [`sharded`](crate::sharding::sharded) and of [`shard_map`](crate::sharding::shard_map) get this
    /// axis on the dim of the lanes. Without an axis, that dim is open, and the devices of a `shard_map` compute all
    /// lanes. Values do not change. This is `spmd_axis_name` of
    /// [`jax.vmap`](https://docs.jax.dev/en/latest/_autosummary/jax.vmap.html).
    ///
    /// ```
    /// # use gradloom::{Tensor, Vmap};
    /// # use gradloom::sharding::{Mesh, ShardingSpec, with_sharding};
    /// # use std::sync::Arc;
    /// let mesh = Arc::new(Mesh::new("m", &[("data", 2), ("model", 2)])?);
    /// let columns = ShardingSpec::split(&mesh, &[&["model"]])?;
    /// let one = |x: &Tensor| with_sharding(&(x * 2.0), &columns);
    /// let all = Vmap::new(one).spmd_axis_name("data");
    /// let y = all.call(&Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]));
    /// assert_eq!(y.sharding().unwrap().to_string(), r#"sharding<@m, [{"data"}, {"model"}]>"#);
    /// # Ok::<(), gradloom::sharding::ShardingError>(())
    /// ```
    ///
    /// [`call`](Vmap::call) fails if a mesh of the function does not have the axis, if a spec or a collective in it uses
    /// the axis, or if the devices of a `shard_map` cannot divide the lanes equally.
    pub fn spmd_axis_name(mut self, axis: &str) -> Vmap<F> {
        self.axes = self.axes.spmd_axis_name(axis);
        self
    }

    /// Returns the results of all lanes.
    ///
    /// # Panics
    ///
    /// If the axes do not fit the argument or the result, or if `f` reads a value of a lane. If `f`
    /// returns `Result`, these are errors instead.
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
        let axes = self.axes.in_axes.of_leaves(x, "in_axes")?;
        let f = |lane: &[Tensor]| (self.f)(&with_leaves(x, lane));
        on_leaves(&self.axes, axes, &paths(x, "argument"), leaves(x), f)
    }
}

/// Applies a function of the leaves of its arguments to each lane. The arguments are given by their names and
/// the paths of their leaves.
pub(crate) fn vmap_leaves<R: Outcome>(
    axes: &VmapAxes,
    arguments: &[(&str, Vec<String>)],
    leaves: Vec<Tensor>,
    f: impl FnOnce(&[Tensor]) -> R,
) -> Result<R::Tree> {
    let in_axes = axes.in_axes.of_arguments(arguments)?;
    let paths = arguments.iter().flat_map(|(_, paths)| paths).cloned();
    on_leaves(axes, in_axes, &paths.collect::<Vec<_>>(), leaves, f)
}

/// Applies a function to each lane of leaves with these axes and paths.
fn on_leaves<R: Outcome>(
    axes: &VmapAxes,
    in_axes: Vec<Option<isize>>,
    in_paths: &[String],
    leaves: Vec<Tensor>,
    f: impl FnOnce(&[Tensor]) -> R,
) -> Result<R::Tree> {
    let (args, n) = lanes_of(leaves, in_axes, in_paths, axes.axis_size)?;
    let mesh_axis = axes.mesh_axis;
    let (y, outs) = on_lanes(args, Batching { len: n, mesh_axis }, f)?;
    let axes = axes.out_axes.of_leaves(&y, "out_axes")?;
    let outs = outs.into_iter().zip(axes).zip(paths(&y, "result"));
    let outs = outs.map(|((out, axis), path)| out.placed(axis, n, path));
    Ok(with_leaves(&y, &outs.collect::<Result<Vec<Tensor>>>()?))
}

/// Returns the result of `f` for one lane, and its leaves for all lanes.
fn on_lanes<R: Outcome>(
    args: Vec<Arg>,
    batching: Batching,
    f: impl FnOnce(&[Tensor]) -> R,
) -> Result<(R::Tree, Vec<LaneResult>)> {
    let scope = ScopeGuard::open();
    let since = seq_no_of_all();
    let of_lanes = args.iter().filter_map(|arg| match arg {
        Arg::Each(all, n) => Some(Aval::batched(all.dtype(), &all.shape()[1..], *n)),
        Arg::Shared(_) => None,
    });
    let inputs = stand_ins(&of_lanes.collect::<Vec<_>>(), &scope);
    let mut input = inputs.iter();
    let one_lane: Vec<Tensor> = args
        .iter()
        .map(|arg| match arg {
            Arg::Each(..) => input.next().expect("an input for each argument").clone(),
            Arg::Shared(x) => x.clone(),
        })
        .collect();
    let untraced = UntracedGuard::new();
    let y = R::run(|| f(&one_lane))?;
    drop(untraced);
    let GraphPart {
        program, captured, ..
    } = cut(&inputs, since, &leaves(&y), true);
    drop(scope);
    events::emit(Event::Traced {
        equations: program.eqns.len(),
    });
    let differs: Vec<bool> = (0..program.params.len())
        .map(|i| i < inputs.len())
        .collect();
    if let Some(axis) = batching.mesh_axis {
        let checked = check_mesh_axis(&program, axis, batching.len);
        checked.map_err(|reason| {
            let axis = axis.to_string();
            VmapFault::MeshAxis { axis, reason }.into_error()
        })?;
    }
    let on_all = program.derived(Derivation::Batch(batching), || {
        on_all_lanes(&program, &differs, batching)
    })?;
    let Batch { program, each } = &*on_all;
    let all = args.into_iter().filter_map(|arg| match arg {
        Arg::Each(all, _) => Some(all),
        Arg::Shared(_) => None,
    });
    let mut bound = trace::args(&Vec::from_iter(all), &captured);
    bind_shapes(program, &mut bound);
    let outs = replay_bound(program, &bound)?;
    let outs = outs.iter().zip(each).zip(leaves(&y));
    let outs = outs.map(|((out, each), y)| LaneResult {
        value: out.tensor().clone(),
        each: *each,
        batch_dims: y.batch_dims(),
    });
    Ok((y, outs.collect()))
}

/// Returns the leaves of the arguments, with the lanes along their first physical axis, and the number of
/// lanes.
fn lanes_of(
    leaves: Vec<Tensor>,
    axes: Vec<Option<isize>>,
    paths: &[String],
    asked: Option<usize>,
) -> Result<(Vec<Arg>, usize)> {
    let (mut args, mut counts) = (Vec::new(), Vec::new());
    for ((leaf, axis), path) in leaves.into_iter().zip(axes).zip(paths) {
        let Some(axis) = axis else {
            args.push(Arg::Shared(leaf));
            continue;
        };
        let rank = leaf.rank() as isize;
        if !(-rank..rank).contains(&axis) {
            let (path, aval) = (path.clone(), leaf.aval().clone());
            return Err(VmapFault::NoAxis { path, axis, aval }.into_error());
        }
        let batch_dims = leaf.batch_dims();
        counts.push((path.clone(), leaf.dim(axis)));
        let all = match batch_dims + axis.rem_euclid(rank) as usize {
            0 => leaf,
            from => catch(|| Ok(leaf.physical().moveaxis(from as isize, 0)))?,
        };
        args.push(Arg::Each(all, batch_dims));
    }
    let n = match (asked, counts.first()) {
        (Some(n), _) | (None, Some(&(_, n))) => n,
        (None, None) => return Err(VmapFault::NoLanes.into_error()),
    };
    if counts.iter().any(|(_, found)| *found != n) {
        return Err(VmapFault::Counts { counts, asked }.into_error());
    }
    Ok((args, n))
}

/// A leaf of the argument.
enum Arg {
    /// A value for each lane, along the first axis of a physical tensor, with the number of batch axes.
    Each(Tensor, usize),
    /// One value that all lanes share.
    Shared(Tensor),
}

/// A leaf of the result.
struct LaneResult {
    /// The physical tensor.
    value: Tensor,
    /// True if it has a value for each lane, along the first axis.
    each: bool,
    /// The number of batch axes.
    batch_dims: usize,
}

impl LaneResult {
    /// Returns the result with its lanes along `axis`.
    fn placed(self, axis: Option<isize>, n: usize, path: String) -> Result<Tensor> {
        let LaneResult {
            value,
            each,
            batch_dims,
        } = self;
        let Some(axis) = axis else {
            return match each {
                true => Err(VmapFault::Differs { path }.into_error()),
                false => Ok(value.with_batch_dims(batch_dims)),
            };
        };
        let all = match each {
            true => value,
            false => catch(|| Ok(value.broadcast_to([&[n], value.shape()].concat())))?,
        };
        let rank = (all.rank() - batch_dims) as isize;
        if !(-rank..rank).contains(&axis) {
            let aval = all.aval().clone();
            return Err(VmapFault::NoAxis { path, axis, aval }.into_error());
        }
        let placed = match batch_dims + axis.rem_euclid(rank) as usize {
            0 => all,
            to => catch(|| Ok(all.moveaxis(0, to as isize)))?,
        };
        Ok(placed.with_batch_dims(batch_dims))
    }
}
