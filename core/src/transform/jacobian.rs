//! Jacobians and Hessians: derivatives along all basis vectors, as lanes.

use super::lanes_program::LanesProgram;
use super::linear::linearized_at;
use super::loss::Loss;
use super::outcome::{TransformSite, Uncaught};
use super::trace::{self, Trace};
use super::vjp::pullback_of;
use super::{JacobianTree, Outcome, Vmap, check_forward, check_reversible};
use crate::graph::cut_program::Derivation;
use crate::raise::catch;
use crate::tensor::replay::Bound;
use crate::tree::{free_leaves, frozen, leaves, share, with_leaves};
use crate::{DType, Error, Result, Tensor, Tree, check};
use gradloom_ir::ad::{self, Calls};
use gradloom_ir::{Program, Var, pass};

/// For each leaf of the result of a function, a tree of the structure of its argument.
type Blocks<R, X> = <<R as Outcome>::Tree as JacobianTree>::Blocks<X>;

/// Returns the Jacobian of `f` in forward mode, as a function.
///
/// It has, for each leaf of the result, a tree of the structure of the argument: see
/// [`JacobianTree`]. The axes of each block are those of the leaf of the result, then those of the
/// leaf of the argument. A block has the dtype of the leaf of the result. If the result and the
/// argument are tensors, there is one block. All columns are computed together, as lanes of one
/// [`vmap`](super::vmap()). The blocks of leaves in fields marked `#[nodiff]` are zero.
///
/// It is cheaper than [`jacrev`] if the argument has fewer elements than the result. If a rule of a
/// [`CustomFunction`](crate::CustomFunction) reads elements, the columns are computed one after the other.
///
/// ```
/// # use gradloom::{Tensor, jacfwd};
/// let j = jacfwd(|t: &Tensor| Tensor::stack(&[t.square(), t * 3.0], 0))(&Tensor::from(2.0f32));
/// assert_eq!(j.to_vec::<f32>(), [4.0, 3.0]);
///
/// let (x, y) = (Tensor::from([1.0f32, 2.0]), Tensor::from(3.0f32));
/// let (by_x, by_y) = jacfwd(|(x, y): &(Tensor, Tensor)| x * y)(&(x, y));
/// assert_eq!(by_x.to_vec::<f32>(), [3.0, 0.0, 0.0, 3.0]);
/// assert_eq!(by_y.to_vec::<f32>(), [1.0, 2.0]);
/// ```
///
/// # Panics
///
/// The returned function panics if a leaf of its argument or of the result of `f` is neither a float nor in
/// a field marked `#[nodiff]`. If `f` returns `Result`, this is an error instead.
#[track_caller]
pub fn jacfwd<X, R, F>(f: F) -> impl Fn(&X) -> R::Wrap<Blocks<R, X>>
where
    X: Tree,
    R: Outcome<Tree: JacobianTree>,
    F: Fn(&X) -> R,
{
    let made = TransformSite::by("jacfwd");
    move |x: &X| R::wrap_made(try_jacfwd(&f, x), made)
}

/// Returns the Jacobian of `f` in reverse mode, as a function.
///
/// Its structure and its axes are those of [`jacfwd`]. A block has the dtype of the leaf of the
/// argument. All rows are computed together, as lanes.
///
/// ```
/// # use gradloom::{Tensor, jacrev};
/// let j = jacrev(|x: &Tensor| x * x)(&Tensor::from([1.0f32, 2.0]));
/// assert_eq!(j.shape(), [2, 2]);
/// assert_eq!(j.to_vec::<f32>(), [2.0, 0.0, 0.0, 4.0]);
/// ```
///
/// # Panics
///
/// As for [`jacfwd`].
#[track_caller]
pub fn jacrev<X, R, F>(f: F) -> impl Fn(&X) -> R::Wrap<Blocks<R, X>>
where
    X: Tree,
    R: Outcome<Tree: JacobianTree>,
    F: Fn(&X) -> R,
{
    let made = TransformSite::by("jacrev");
    move |x: &X| R::wrap_made(try_jacrev(&f, x), made)
}

/// Returns the Hessian of a function whose result is a single float, forward over reverse.
///
/// It has a block for each pair of leaves of the argument, in the structure of the Jacobian of the
/// gradient: see [`jacfwd`]. As for [`grad`](super::grad()), the result may be a tuple that starts with
/// the float; its other parts are ignored.
///
/// ```
/// # use gradloom::{Tensor, hessian};
/// let f = |x: &Tensor| (x * x * x).sum(..);
/// let h = hessian(f)(&Tensor::from([1.0f32, 2.0]));
/// assert_eq!(h.to_vec::<f32>(), [6.0, 0.0, 0.0, 12.0]);
///
/// let (x, y) = (Tensor::from([1.0f32, 2.0]), Tensor::from(3.0f32));
/// let ((xx, xy), (_, yy)) = hessian(|(x, y): &(Tensor, Tensor)| (x * y.square()).sum(..))(&(x, y));
/// assert_eq!(xx.to_vec::<f32>(), [0.0; 4]);
/// assert_eq!(xy.to_vec::<f32>(), [6.0, 6.0]);
/// assert_eq!(yy.to_vec::<f32>(), [6.0]);
/// ```
///
/// # Panics
///
/// As for [`grad`](super::grad).
#[track_caller]
pub fn hessian<X, R, F>(f: F) -> impl Fn(&X) -> R::Wrap<X::Blocks<X>>
where
    X: JacobianTree,
    R: Outcome<Tree: Loss>,
    F: Fn(&X) -> R,
{
    let made = TransformSite::by("hessian");
    move |x: &X| R::wrap_made(try_hessian(&f, x), made)
}

fn try_jacfwd<X, R>(f: &impl Fn(&X) -> R, x: &X) -> Result<Blocks<R, X>>
where
    X: Tree,
    R: Outcome<Tree: JacobianTree>,
{
    forward_jacobian(trace::trace(f, x)?, x)
}

/// Returns the Jacobian of a traced function in forward mode.
fn forward_jacobian<X: Tree, Y: JacobianTree>(trace: Trace<Y>, x: &X) -> Result<Y::Blocks<X>> {
    if is_one_program(&trace, x) {
        check_forward(&trace.program)?;
        check::floats(&trace.y, "result")?;
        let n = numel(&free_leaves(x));
        let program = &trace.program;
        let columns = program.derived(Derivation::Columns, || {
            tangents_on_lanes(program, program.wrt(), n)
        })?;
        let columns = along_inputs(&columns, &trace, x, &leaves(&trace.y))?;
        return of_columns(&trace.y, columns, x);
    }
    let (y, map) = linearized_at(trace, x)?;
    check::floats(&y, "result")?;
    let (basis, sizes) = basis(&free_leaves(x));
    let basis = with_frozen(x, basis, |leaf| {
        zeros_before(&[total(&sizes)], leaf, leaf.dtype())
    });
    let columns = along_basis(|e: &X| map.try_call(e), &basis, total(&sizes))?;
    of_columns(&y, columns, x)
}

/// Returns the Jacobian of a function with result `y`, whose columns are along the first axes.
fn of_columns<X: Tree, Y: JacobianTree>(
    y: &Y,
    columns: Vec<Tensor>,
    x: &X,
) -> Result<Y::Blocks<X>> {
    let free = free_leaves(x);
    let sizes: Vec<usize> = free.iter().map(Tensor::numel).collect();
    let rows = leaves(y).into_iter().zip(columns).map(|(y, columns)| {
        let block = |(columns, x): (Tensor, &Tensor)| {
            let shape = [y.shape(), x.shape()].concat();
            columns.moveaxis(0, -1).reshape(shape)
        };
        let blocks = parts(&columns, &sizes).into_iter().zip(&free).map(block);
        with_frozen(x, blocks.collect(), |leaf| {
            zeros_before(y.shape(), leaf, y.dtype())
        })
    });
    catch(|| Ok(y.__blocks(&mut rows.collect::<Vec<X>>().into_iter())))
}

fn try_jacrev<X, R>(f: &impl Fn(&X) -> R, x: &X) -> Result<Blocks<R, X>>
where
    X: Tree,
    R: Outcome<Tree: JacobianTree>,
{
    let trace = trace::trace(f, x)?;
    let program = is_one_program(&trace, x).then(|| trace.program.clone());
    let (y, pullback) = pullback_of(trace, x)?;
    check::floats(&y, "result")?;
    let results = leaves(&y);
    let (basis, sizes) = basis(&results);
    let n = total(&sizes);
    let lanes = match program {
        Some(program) => {
            let cotangents = pullback.on_lanes(&program, &basis, n)?;
            let all = with_frozen(x, cotangents, |leaf| zeros_before(&[n], leaf, leaf.dtype()));
            leaves(&all)
        }
        None => {
            let basis = with_leaves(&y, &basis);
            along_basis(|e: &R::Tree| pullback.try_call(e), &basis, n)?
        }
    };
    catch(|| {
        let by_leaf: Vec<Vec<Tensor>> = lanes.iter().map(|all| parts(all, &sizes)).collect();
        let rows = results.iter().enumerate().map(|(i, y)| {
            let blocks = by_leaf.iter().zip(leaves(x));
            let blocks = blocks.map(|(rows, x)| rows[i].reshape([y.shape(), x.shape()].concat()));
            with_leaves(x, &blocks.collect::<Vec<Tensor>>())
        });
        Ok(y.__blocks(&mut rows.collect::<Vec<X>>().into_iter()))
    })
}

fn try_hessian<X, R>(f: &impl Fn(&X) -> R, x: &X) -> Result<X::Blocks<X>>
where
    X: JacobianTree,
    R: Outcome<Tree: Loss>,
{
    let mut of_loss = None;
    // The function runs inside of a trace of its gradient, so that host code keeps the path to the argument.
    let mut gradient = |x: &X| {
        let trace = trace::trace(f, x)?;
        check_reversible(&trace.program)?;
        check::scalar(trace.y.loss())?;
        if is_one_program(&trace, x) {
            of_loss = Some(trace);
            return Ok(share(x));
        }
        let (y, pullback) = pullback_of(trace, x)?;
        pullback.call_first(y.loss().ones_like())
    };
    let of_gradient = trace::trace(|x: &X| Uncaught(gradient(x)), x)?;
    let Some(trace) = of_loss else {
        return forward_jacobian(of_gradient, x);
    };
    let n = numel(&free_leaves(x));
    let program = &trace.program;
    let columns = program.derived(Derivation::Hessian, || {
        gradients_on_lanes(program, program.wrt(), n)
    })?;
    let columns = along_inputs(&columns, &trace, x, &free_leaves(x))?;
    let columns = with_frozen(x, columns, |leaf| zeros_before(&[n], leaf, leaf.dtype()));
    of_columns(x, leaves(&columns), x)
}

/// Returns whether a derivative along all basis vectors is one program, which is made of that of the function.
///
/// Host code runs when its derivative is recorded, and the program says nothing of values that the function read, of
/// named values, and of batch prefixes.
fn is_one_program<X: Tree, Y: Tree>(trace: &Trace<Y>, x: &X) -> bool {
    let has_prefix = |leaf: &Tensor| leaf.batch_dims() > 0;
    !trace.program.has_code()
        && trace.known.is_empty()
        && trace.points.is_empty()
        && !leaves(x).iter().chain(&leaves(&trace.y)).any(has_prefix)
}

/// Returns the results of `program` along all basis vectors of the free leaves of `x`.
fn along_inputs<Y>(
    program: &LanesProgram,
    trace: &Trace<Y>,
    x: &impl Tree,
    likes: &[Tensor],
) -> Result<Vec<Tensor>> {
    let free = free_leaves(x);
    let (basis, sizes) = basis(&free);
    let mut args = trace::args(&free, &trace.captured);
    args.extend(basis.into_iter().map(Bound::Tensor));
    program.run(args, likes, total(&sizes))
}

/// Returns the tangents of the results of a program, for `n` lanes of tangents of `wrt`.
fn tangents_on_lanes(program: &Program, wrt: &[Var], n: usize) -> Result<LanesProgram> {
    let program = pass::simplify(program.clone());
    let ad::Jvp {
        program: mut joint,
        active,
    } = ad::jvp(&program, wrt, Calls::Joint);
    joint.outs.drain(..active.len());
    let joint = pass::simplify(joint);
    LanesProgram::new(&joint, program.params.len(), n, &active)
}

/// Returns the tangents of the gradient of the first result of a program.
fn gradients_on_lanes(program: &Program, wrt: &[Var], n: usize) -> Result<LanesProgram> {
    let mut loss = program.clone();
    loss.outs.truncate(1);
    let ad::Grad {
        program: mut gradient,
        nonzero,
    } = ad::grad_program(&loss, wrt);
    gradient.outs.remove(0);
    let gradient = pass::dce(gradient);
    check_forward(&gradient)?;
    Ok(tangents_on_lanes(&gradient, wrt, n)?.with_zeros(&nonzero))
}

/// Returns the leaves of the results for all basis vectors, stacked along a first axis.
///
/// The vectors are lanes, unless the rule of a custom function reads elements: it runs for one vector after the other.
fn along_basis<E: Tree, Y: Tree>(
    derivative: impl Fn(&E) -> Result<Y>,
    basis: &E,
    n: usize,
) -> Result<Vec<Tensor>> {
    match Vmap::new(&derivative).axis_size(n).call(basis) {
        Ok(all) => return Ok(leaves(&all)),
        Err(Error::Lane) => {}
        Err(error) => return Err(error),
    }
    let along = |of: &mut dyn FnMut(&Tensor) -> Tensor| {
        let vector = catch(|| Ok(basis.map(of)))?;
        Ok(leaves(&derivative(&vector)?))
    };
    if n == 0 {
        let one = along(&mut |leaf| Tensor::zeros(&leaf.shape()[1..], leaf.dtype()))?;
        return Ok(one
            .iter()
            .map(|y| zeros_before(&[0], y, y.dtype()))
            .collect());
    }
    let one = |i: usize| along(&mut |leaf| leaf.select_index(0, i as i64));
    let all = (0..n).map(one).collect::<Result<Vec<Vec<Tensor>>>>()?;
    let stacked = (0..all[0].len()).map(|leaf| {
        let of_leaf: Vec<&Tensor> = all.iter().map(|one| &one[leaf]).collect();
        Tensor::stack(&of_leaf, 0)
    });
    catch(|| Ok(stacked.collect()))
}

/// Returns the basis vectors of the space of these leaves together, along a first axis, and the
/// number of elements of each leaf.
fn basis(leaves: &[Tensor]) -> (Vec<Tensor>, Vec<usize>) {
    let sizes: Vec<usize> = leaves.iter().map(Tensor::numel).collect();
    let mut before: usize = 0;
    let of_leaf = leaves.iter().zip(&sizes).map(|(leaf, size)| {
        // A label outside of `0..size` has a row of zeros: there the vector is one of another leaf.
        let labels = Tensor::arange(total(&sizes), DType::I64);
        let labels = match before {
            0 => labels,
            before => labels - before as i64,
        };
        before += size;
        if !leaf.dtype().is_float() {
            return zeros_before(&[total(&sizes)], leaf, leaf.dtype());
        }
        let shape = [&[total(&sizes)], leaf.shape()].concat();
        labels.one_hot(*size, leaf.dtype()).reshape(shape)
    });
    (of_leaf.collect(), sizes)
}

fn total(sizes: &[usize]) -> usize {
    sizes.iter().sum()
}

fn numel(leaves: &[Tensor]) -> usize {
    leaves.iter().map(Tensor::numel).sum()
}

/// Splits the first axis.
fn parts(all: &Tensor, sizes: &[usize]) -> Vec<Tensor> {
    match sizes {
        [] => Vec::new(),
        [_] => vec![all.clone()],
        _ => all.split_sizes(sizes.to_vec(), 0),
    }
}

/// Returns a tree of the structure of `x` with these leaves in the place of those that are not frozen.
fn with_frozen<X: Tree>(
    x: &X,
    free: Vec<Tensor>,
    mut of_frozen: impl FnMut(&Tensor) -> Tensor,
) -> X {
    let (mut free, mut frozen) = (free.into_iter(), frozen(x).into_iter());
    x.map(&mut |leaf| match frozen.next() {
        Some(true) => of_frozen(leaf),
        _ => free
            .next()
            .expect("a tensor for each leaf that is not frozen"),
    })
}

/// Returns zeros with these axes before those of `leaf`.
fn zeros_before(axes: &[usize], leaf: &Tensor, dtype: DType) -> Tensor {
    Tensor::zeros([axes, leaf.shape()].concat(), dtype)
}
