//! Functions that ranks run together.

use crate::error::{MpiError, Result};
use crate::lower::{Form, lower};
use crate::steps::Steps;
use crate::world::{Deed, Stop, World};
use gradloom::sharding::{
    DimSharding, Explanation, Mesh, ShardMap, ShardingSpec, Specs, Speed, with_mesh,
};
use gradloom::trace::{Trace, trace};
use gradloom::tree::TreeKey;
use gradloom::{Error, Outcome, ShardingFault, Tensor, Tree, evaluate};
use gradloom_ir::Program;
use gradloom_ir::hash::Hasher;
use gradloom_ir::spmd::{Constraints, Sharded, SpmdError, shard};
use std::cell::RefCell;
use std::hash::Hasher as _;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

/// A function that the ranks of a [`World`] run together: see [`World::sharded`] and [`World::shard_map`].
///
/// The first call with arguments of some shapes traces the function, divides it over the devices and plans it. Later
/// calls run these plans. Tensors that the function captures are those of the first call; other state that it reads is
/// not read again. The shapes include the structure of the argument and its fields that are not tensors. An argument
/// with a field that has no `Eq` is traced in each call.
///
/// It cannot be differentiated, as its calls compute at once: divide a function that calls
/// [`grad`](gradloom::grad()).
pub struct RankFunction<'w, X, R: Outcome, F> {
    world: &'w World,
    f: F,
    mesh: Arc<Mesh>,
    in_specs: Specs,
    out_specs: Specs,
    mode: Mode,
    number: usize,
    plans: RefCell<Vec<Rc<RankPlan<R::Tree>>>>,
    argument: PhantomData<fn(&X)>,
}

/// How a function is divided.
#[derive(Clone, Copy)]
enum Mode {
    Sharded,
    ShardMap,
}

/// A function, planned for arguments of some shapes.
struct RankPlan<Y> {
    form: Form,
    key: Option<TreeKey>,
    steps: Steps,
    /// The result, with other elements.
    y: Y,
}

impl World {
    /// Returns the function with the values of `f`, which the ranks compute together.
    ///
    /// It is divided as [`gradloom::sharding::sharded`] does: `f` is a function of whole tensors, and the specs place the
    /// leaves of its argument and of its result. A leaf without a spec is whole on each rank. Open dims count as closed,
    /// and the sharding that an argument carries does not count. All ranks have to make their functions in the same order.
    ///
    /// ```
    /// # use gradloom::prelude::*;
    /// # use gradloom::sharding::{Mesh, ShardingSpec};
    /// # use gradloom_mpi::World;
    /// # use std::sync::Arc;
    /// let world = World::new()?;
    /// let mesh = Arc::new(Mesh::new("m", &[("data", world.size())])?);
    /// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
    /// let total = world.sharded(|x: &Tensor| x.square().sum(..), &mesh, rows, None);
    /// assert_eq!(total.call(&Tensor::from([1.0f32, 2.0, 3.0]))?.item::<f32>(), 14.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sharded<X, R, F>(
        &self,
        f: F,
        mesh: &Arc<Mesh>,
        in_specs: impl Into<Specs>,
        out_specs: impl Into<Specs>,
    ) -> RankFunction<'_, X, R, F>
    where
        X: Tree,
        R: Outcome,
        F: Fn(&X) -> R,
    {
        self.function(Mode::Sharded, f, mesh, [in_specs.into(), out_specs.into()])
    }

    /// Returns the function that runs `f` on the parts of each rank, as [`gradloom::sharding::shard_map`] does on those
    /// of each device. `f` exchanges values by collectives, such as [`gradloom::sharding::all_reduce`].
    ///
    /// All ranks have to make their functions in the same order.
    ///
    /// ```
    /// # use gradloom::prelude::*;
    /// # use gradloom::sharding::{Mesh, Reduction, ShardingSpec, all_reduce};
    /// # use gradloom_mpi::World;
    /// # use std::sync::Arc;
    /// let world = World::new()?;
    /// let mesh = Arc::new(Mesh::new("m", &[("data", world.size())])?);
    /// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
    /// let total = |x: &Tensor| all_reduce(&x.sum(..), "data", Reduction::Sum);
    /// let total = world.shard_map(total, &mesh, rows, None);
    /// // Each rank has two elements.
    /// let x = Tensor::ones([2 * world.size()], DType::F32);
    /// assert_eq!(total.call(&x)?.item::<f32>(), 2.0 * world.size() as f32);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shard_map<X, R, F>(
        &self,
        f: F,
        mesh: &Arc<Mesh>,
        in_specs: impl Into<Specs>,
        out_specs: impl Into<Specs>,
    ) -> RankFunction<'_, X, R, F>
    where
        X: Tree,
        R: Outcome,
        F: Fn(&X) -> R,
    {
        self.function(Mode::ShardMap, f, mesh, [in_specs.into(), out_specs.into()])
    }

    fn function<X, R: Outcome, F>(
        &self,
        mode: Mode,
        f: F,
        mesh: &Arc<Mesh>,
        [in_specs, out_specs]: [Specs; 2],
    ) -> RankFunction<'_, X, R, F> {
        RankFunction {
            world: self,
            f,
            mesh: mesh.clone(),
            in_specs,
            out_specs,
            mode,
            number: self.next_function(),
            plans: RefCell::default(),
            argument: PhantomData,
        }
    }

    /// Returns the parts of a tree that this rank has. A leaf without a spec is whole.
    ///
    /// It sends nothing, so ranks need not call it together.
    ///
    /// ```
    /// # use gradloom::prelude::*;
    /// # use gradloom::sharding::{Mesh, ShardingSpec};
    /// # use gradloom_mpi::World;
    /// # use std::sync::Arc;
    /// let world = World::new()?;
    /// let mesh = Arc::new(Mesh::new("m", &[("data", world.size())])?);
    /// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
    /// let x = Tensor::ones([2 * world.size(), 3], DType::F32);
    /// let part = world.part(&x, &mesh, rows.clone())?;
    /// assert_eq!(part.shape(), [2, 3]);
    /// assert_eq!(world.whole(&part, &mesh, rows)?.shape(), x.shape());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the devices of the mesh are not the ranks, a spec does not fit its leaf, the ranks cannot divide a leaf equally,
    /// or a leaf cannot be computed.
    pub fn part<T: Tree>(&self, whole: &T, mesh: &Arc<Mesh>, specs: impl Into<Specs>) -> Result<T> {
        let position = self.position(mesh)?;
        let specs = specs.into().of_leaves(whole, "specs")?;
        let paths = paths(whole, "argument");
        let mut specs = specs.iter().zip(&paths);
        let mut fault = None;
        let part = whole.map(&mut |leaf| {
            let (spec, path) = specs.next().expect("each leaf has an entry");
            let Some(spec) = spec else {
                return leaf.clone();
            };
            part_of(leaf, spec, mesh, position, path).unwrap_or_else(|error| {
                fault.get_or_insert(error);
                leaf.clone()
            })
        });
        fault.map_or(Ok(()), Err)?;
        // The whole values may then be dropped.
        evaluate(&part)?;
        Ok(part)
    }

    /// Returns the whole values of a tree, of which each rank has parts. All ranks have to call it together.
    ///
    /// It is the reverse of [`World::part`]. Each call traces and plans; divide a function that returns its argument to
    /// do so once.
    ///
    /// # Errors
    ///
    /// As [`RankFunction::on_parts`].
    pub fn whole<T: Tree>(
        &self,
        parts: &T,
        mesh: &Arc<Mesh>,
        specs: impl Into<Specs>,
    ) -> Result<T> {
        let same = |x: &T| x.map(&mut Tensor::clone);
        self.sharded(same, mesh, specs, None).on_parts(parts)
    }
}

impl<X, R, F> RankFunction<'_, X, R, F>
where
    X: Tree,
    R: Outcome,
    F: Fn(&X) -> R,
{
    /// Returns the whole result for a whole argument. All ranks have to call it together, with the same argument.
    ///
    /// The rank cuts its parts of the argument, and the parts of the result are gathered. Lengths need not be multiples
    /// of the numbers of parts, if the function is one of [`World::sharded`].
    ///
    /// # Errors
    ///
    /// On all ranks: if a spec does not fit or `f` cannot be traced, if a rank fails, panics or has left, or if the ranks
    /// do not make the same call. The first call with some shapes also compares the elements of values that have to be
    /// the same on all ranks.
    ///
    /// # Panics
    ///
    /// If `f` panics on this rank. The others get an error.
    pub fn call(&self, x: &X) -> Result<R::Tree> {
        self.world.run(|| self.run(x, Form::Whole))
    }

    /// Returns the parts of the result that the rank has, for the parts of the argument that it has. All ranks have to
    /// call it together.
    ///
    /// [`World::part`] cuts the parts of an argument, and results of a call are arguments of the next.
    ///
    /// ```
    /// # use gradloom::prelude::*;
    /// # use gradloom::sharding::{Mesh, ShardingSpec};
    /// # use gradloom_mpi::World;
    /// # use std::sync::Arc;
    /// let world = World::new()?;
    /// let mesh = Arc::new(Mesh::new("m", &[("data", world.size())])?);
    /// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
    /// let twice = world.sharded(|x: &Tensor| x * 2.0, &mesh, rows.clone(), rows);
    /// // The part of this rank.
    /// let part = Tensor::from([1.0f32, 2.0]);
    /// let part = twice.on_parts(&twice.on_parts(&part)?)?;
    /// assert_eq!(part.to_vec::<f32>(), [4.0, 8.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`call`](RankFunction::call), or if a result has no equal parts.
    ///
    /// # Panics
    ///
    /// If `f` panics on this rank. The others get an error.
    pub fn on_parts(&self, x: &X) -> Result<R::Tree> {
        self.world.run(|| self.run(x, Form::Parts))
    }

    /// Returns what each rank computes and sends in a call with a whole argument, as
    /// [`explain_sharding`](gradloom::sharding::explain_sharding) does. Only the shapes of `x` are read.
    ///
    /// It sends nothing, so ranks need not call it together.
    ///
    /// ```
    /// # use gradloom::prelude::*;
    /// # use gradloom::sharding::{Mesh, ShardingSpec, Speed};
    /// # use gradloom_mpi::World;
    /// # use std::sync::Arc;
    /// let world = World::new()?;
    /// let mesh = Arc::new(Mesh::new("m", &[("data", world.size())])?);
    /// let rows = ShardingSpec::split(&mesh, &[&["data"]])?;
    /// let total = world.sharded(|x: &Tensor| x.sum(..), &mesh, rows, None);
    /// let explained = total.explain(&Tensor::zeros([1 << 20], DType::F32), &Speed::default())?;
    /// assert_eq!(explained.collectives.len(), usize::from(world.size() > 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a spec does not fit or `f` cannot be traced, or if the function is one of [`World::shard_map`], which says
    /// itself what it sends.
    pub fn explain(&self, x: &X, speed: &Speed) -> Result<Explanation> {
        let (traced, specs) = self.traced(x, Form::Whole)?;
        match self.mode {
            Mode::Sharded => Ok(self.divided(&traced, &specs)?.explain(speed)),
            Mode::ShardMap => Err(MpiError::Divide {
                reason: "`shard_map` has no report: its collectives are those of the function"
                    .to_owned(),
            }),
        }
    }

    fn run(&self, x: &X, form: Form) -> Result<R::Tree, Stop> {
        let world = self.world;
        let key = TreeKey::new(x);
        let plans = self.plans.borrow();
        let known = plans
            .iter()
            .position(|plan| plan.form == form && key.is_some() && plan.key == key);
        let deed = Deed::Call {
            function: self.number,
            plan: known.unwrap_or(plans.len()),
        };
        let known = known.map(|i| plans[i].clone());
        drop(plans);
        world.agree(deed, None)?;
        let plan = match known {
            Some(plan) => plan,
            None => self.plan(x, key, form)?,
        };
        let (outs, failure) = plan.steps.run(&leaves(x));
        let ran = match failure {
            None => Ok(Ok(())),
            Some(failure) => failure.map(Err),
        };
        world.meet(|()| Deed::Ran, ran)?;
        Ok(with_leaves(&plan.y, outs))
    }

    /// Traces, divides and plans the function, on all ranks.
    fn plan(&self, x: &X, key: Option<TreeKey>, form: Form) -> Result<Rc<RankPlan<R::Tree>>, Stop> {
        let made = catch_unwind(AssertUnwindSafe(|| self.made(x, form)));
        let made = self.world.meet(|made| Deed::Made(made.hash), made)?;
        for (path, part_and_hash) in made.shared {
            let all = self.world.all_gather(&part_and_hash);
            let (all, _) = all.as_chunks::<2>();
            for (rank, [part, hash]) in all.iter().enumerate() {
                let first = all.iter().position(|[other, _]| other == part);
                let first = first.expect("a rank has its part");
                if all[first][1] != *hash {
                    return Err(MpiError::Elements { path, rank, first }.into());
                }
            }
        }
        let mut steps = made.steps;
        steps.connect(self.world);
        let plan = Rc::new(RankPlan {
            form,
            key,
            steps,
            y: made.y,
        });
        if plan.key.is_some() {
            self.plans.borrow_mut().push(plan.clone());
        }
        Ok(plan)
    }

    /// Traces, divides and plans the function on this rank.
    fn made(&self, x: &X, form: Form) -> Result<Made<R::Tree>> {
        let position = self.world.position(&self.mesh)?;
        let (traced, specs) = self.traced(x, form)?;
        let program = match self.mode {
            Mode::Sharded => {
                let program = self.divided(&traced, &specs)?.to_shard_map();
                program.map_err(refused)?
            }
            Mode::ShardMap => traced.program,
        };
        let (captured, y) = (traced.captured, traced.y);
        let (own, paths) = (leaves(x), paths(x, "argument"));
        let part = |x: &Tensor, spec: &ShardingSpec| match form {
            Form::Whole => 0,
            Form::Parts => {
                let whole: Vec<usize> = x.shape().iter().zip(spec.n_parts()).map(product).collect();
                hash(format!("{:?}", spec.ranges(&whole, position)).as_bytes())
            }
        };
        let values = own.iter().zip(&specs).zip(&paths);
        let values = values.map(|((x, spec), path)| (path.clone(), part(x, spec), x));
        let constants = captured.iter().enumerate();
        let constants = constants.map(|(i, x)| (format!("captured tensor {i}"), 0, x));
        let shared = values
            .chain(constants)
            .map(|(path, part, x)| Ok((path, [part, hash_of(x)?])))
            .collect::<Result<Vec<_>>>()?;
        if leaves(&y).is_empty() {
            return Ok(Made {
                steps: Steps::default(),
                hash: shared.len() as u64,
                shared,
                y,
            });
        }
        let n = [own.len(), captured.len()];
        let lowered = lower(&program, n, form).map_err(|result| MpiError::Uneven {
            path: self::paths(&y, "result").swap_remove(result),
            reason: "its parts have padding".to_owned(),
        })?;
        let devices = self.mesh.devices();
        let text = format!("{form:?} {} {devices:?} {}", shared.len(), lowered.program);
        Ok(Made {
            steps: Steps::new(&lowered, captured, devices, position)?,
            hash: hash(text.as_bytes()),
            shared,
            y,
        })
    }

    /// Returns the function as a program on whole values, and the specs of its argument.
    fn traced(&self, x: &X, form: Form) -> Result<(Traced<R::Tree>, Vec<ShardingSpec>)> {
        let (own, paths) = (leaves(x), paths(x, "argument"));
        if let Some((leaf, path)) = own.iter().zip(&paths).find(|(x, _)| x.batch_dims() > 0) {
            let reason = format!("`{path}` has a batch prefix of {} axes", leaf.batch_dims());
            return Err(MpiError::Divide { reason });
        }
        let specs = self.placed(x, &self.in_specs, ["in_specs", "argument"])?;
        let whole = own.iter().zip(&specs).map(|(x, spec)| {
            let lens = x.shape().iter().zip(spec.n_parts());
            let lens: Vec<usize> = match form {
                Form::Whole => x.shape().to_vec(),
                Form::Parts => lens.map(product).collect(),
            };
            Tensor::zeros(lens, x.dtype())
        });
        let whole = with_leaves(x, whole.collect());
        let f = |x: &X| R::run(|| (self.f)(x));
        let traced = match self.mode {
            Mode::Sharded => with_mesh(&self.mesh, || traced(f, &whole))?,
            Mode::ShardMap => {
                let (ins, outs) = (self.in_specs.clone(), self.out_specs.clone());
                let map = ShardMap::new(f, &self.mesh, ins, outs);
                traced(|x| map.call(x), &whole)?
            }
        };
        Ok((traced, specs))
    }

    /// Divides a program on whole values over the devices of the mesh.
    fn divided(&self, traced: &Traced<R::Tree>, specs: &[ShardingSpec]) -> Result<Sharded> {
        let program = &traced.program;
        let outs = self.placed(&traced.y, &self.out_specs, ["out_specs", "result"])?;
        let rest = program.params[specs.len()..].iter().map(|param| {
            let dims = program.aval(*param).shape.dims();
            ShardingSpec::replicated(&self.mesh, dims.map_or(0, <[_]>::len))
        });
        let constraints = Constraints {
            params: specs.iter().cloned().chain(rest).map(Some).collect(),
            outs: outs.into_iter().map(Some).collect(),
        };
        shard(program, &self.mesh, &constraints).map_err(refused)
    }

    /// Returns the spec of each leaf of a tree. One without a spec is whole.
    fn placed(
        &self,
        tree: &impl Tree,
        specs: &Specs,
        [what, prefix]: [&'static str; 2],
    ) -> Result<Vec<ShardingSpec>> {
        let specs = specs.of_leaves(tree, what)?;
        let all = leaves(tree).into_iter().zip(specs);
        let all = all.zip(paths(tree, prefix));
        all.map(|((x, spec), path)| match spec {
            Some(spec) => placed(&spec, &x, &self.mesh, &path),
            None => Ok(ShardingSpec::replicated(&self.mesh, x.rank())),
        })
        .collect()
    }
}

/// Returns the length of an axis, given that of a part and the number of parts.
fn product((len, n): (&usize, usize)) -> usize {
    len * n
}

fn refused(error: SpmdError) -> MpiError {
    MpiError::Divide {
        reason: error.to_string(),
    }
}

/// What a rank has made for a call, before it compares it with the others.
struct Made<Y> {
    steps: Steps,
    hash: u64,
    /// For each value, a number of the part that this rank has, and a hash of its elements.
    shared: Vec<(String, [u64; 2])>,
    y: Y,
}

/// A function as a program.
struct Traced<Y> {
    program: Program,
    captured: Vec<Tensor>,
    y: Y,
}

fn traced<X: Tree, Y: Tree>(f: impl Fn(&X) -> Result<Y, Error>, x: &X) -> Result<Traced<Y>, Error> {
    let mut y = None;
    let made: Trace<X, Y> = trace(
        |x: &X| {
            let found = f(x)?;
            y = Some(found.map(&mut Tensor::clone));
            Ok(found)
        },
        x,
    )?;
    let y = y.expect("the function was traced");
    Ok(Traced {
        program: made.program().clone(),
        captured: made.captured(),
        // Zeros keep nothing alive.
        y: y.map(&mut |leaf| Tensor::zeros(leaf.shape().to_vec(), leaf.dtype())),
    })
}

/// Returns a spec with closed dims, one for each axis of a leaf.
fn placed(
    spec: &ShardingSpec,
    leaf: &Tensor,
    mesh: &Arc<Mesh>,
    path: &str,
) -> Result<ShardingSpec> {
    if spec.mesh() != mesh {
        return Err(ShardingFault::OtherMesh {
            spec: spec.to_string(),
            mesh: mesh.to_string(),
        }
        .into());
    }
    if !spec.partial().is_empty() {
        let spec = spec.to_string();
        return Err(ShardingFault::Partial { spec }.into());
    }
    if leaf.rank() < spec.rank() {
        return Err(ShardingFault::Rank {
            path: path.to_owned(),
            aval: leaf.aval().clone(),
            dims: spec.rank(),
            spec: spec.to_string(),
        }
        .into());
    }
    let own = spec.dims().iter().map(|dim| dim.axes.clone());
    let dims = own.chain(std::iter::repeat(Vec::new())).take(leaf.rank());
    let dims = dims.map(DimSharding::closed).collect();
    let spec = ShardingSpec::new(mesh, dims, spec.replicated_axes().to_vec(), Vec::new());
    Ok(spec.map_err(ShardingFault::from)?)
}

fn leaves(tree: &impl Tree) -> Vec<Tensor> {
    let mut all = Vec::new();
    tree.visit(&mut |leaf| all.push(leaf.clone()));
    all
}

/// Returns a tree of the same structure with other leaves.
fn with_leaves<T: Tree>(tree: &T, leaves: Vec<Tensor>) -> T {
    let mut leaves = leaves.into_iter();
    tree.map(&mut |_| leaves.next().expect("a tree has as many leaves"))
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = Hasher::default();
    hasher.write(bytes);
    hasher.finish()
}

/// Returns a hash of the elements of a tensor.
fn hash_of(x: &Tensor) -> Result<u64> {
    Ok(hash(
        &[x.aval().to_string().as_bytes(), &x.try_to_le_bytes()?].concat(),
    ))
}

/// Returns the paths of the leaves of a tree.
fn paths(tree: &impl Tree, prefix: &str) -> Vec<String> {
    let mut paths = Vec::new();
    tree.paths(prefix, &mut paths);
    paths
}

/// Returns the part of a value at a position of a mesh.
fn part_of(
    whole: &Tensor,
    spec: &ShardingSpec,
    mesh: &Arc<Mesh>,
    position: usize,
    path: &str,
) -> Result<Tensor> {
    let spec = placed(spec, whole, mesh, path)?;
    let lens = whole.shape().iter().zip(spec.n_parts());
    for (axis, (len, n)) in lens.enumerate() {
        if !len.is_multiple_of(n) {
            return Err(MpiError::Uneven {
                path: path.to_owned(),
                reason: format!("axis {axis} of {} has {n} parts", whole.aval()),
            });
        }
    }
    let ranges = spec.ranges(whole.shape(), position);
    let ranges = ranges.expect("the spec has the rank of the leaf");
    let starts: Vec<i64> = ranges.iter().map(|range| range.start as i64).collect();
    let stops: Vec<i64> = ranges.iter().map(|range| range.end as i64).collect();
    let steps = vec![1i64; starts.len()];
    Ok(whole.slice(starts, stops, steps))
}
