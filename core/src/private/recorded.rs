//! Derivatives of functions that are recorded at run time.

use crate::__private::tangent::check_given;
use crate::call::companion_pullback::{CompanionPullback, LeafCotangents, Residuals};
use crate::call::leaf_range::TreePart;
use crate::call::leaves::Leaves;
use crate::error::PrefixFault;
use crate::raise::{expect, raise};
use crate::transform::{
    LeafFunction, LeafPullback, Outcome, Trace, joint_of, on_leaves, pullback_of, trace_leaves,
};
use crate::tree::{leaves as leaves_of, with_leaves};
use crate::{Aval, Error, Result, Tensor, Tree};

/// [`catch`](super::catch) for functions with an error type of their own.
pub fn catch_as<T, E: From<Error>>(body: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    super::catch(|| Ok(body()))?
}

/// Copies of the differentiable arguments of a call, as one tree.
pub struct Arguments<X> {
    copies: X,
    /// Parameter index and number of leaves of each argument, the last one first.
    positions: Vec<(usize, usize)>,
}

impl<X: Tree> Arguments<X> {
    /// Returns the leaves of all arguments, with the positions of the arguments.
    fn leaves(&self) -> (Vec<Tensor>, &[(usize, usize)]) {
        (leaves_of(&self.copies), &self.positions)
    }
}

/// Returns no arguments.
pub fn no_arguments() -> Arguments<()> {
    Arguments {
        copies: (),
        positions: Vec::new(),
    }
}

/// Adds an argument before others.
pub fn argument<T: Tree, X>(param: usize, x: &T, rest: Arguments<X>) -> Arguments<(T, X)> {
    let mut positions = rest.positions;
    positions.push((param, n_leaves(x)));
    Arguments {
        copies: (super::copy(x), rest.copies),
        positions,
    }
}

/// Records a function for its result and pullback.
///
/// Only parameters for which `asked` is true have cotangents. A leaf that is not a float has none.
#[track_caller]
pub fn record_vjp<X, R, const N: usize>(
    likes: [Vec<Aval>; N],
    asked: &[bool; N],
    x: Arguments<X>,
    f: impl FnOnce(&X) -> R,
) -> R::Wrap<(R::Tree, CompanionPullback)>
where
    X: Tree,
    R: Outcome,
{
    let mut y = None;
    let mut f = on_leaves(f, &x.copies, &mut y);
    let found = vjp_of_leaves(Vec::from(likes), asked, x.leaves(), &mut f);
    drop(f);
    R::wrap(found.map(|(leaves, pullback)| {
        let y = y.expect("the function was traced");
        (with_leaves(&y, &leaves), pullback)
    }))
}

/// [`record_vjp`] of a function of leaves.
fn vjp_of_leaves(
    likes: Vec<Vec<Aval>>,
    asked: &[bool],
    (all, positions): (Vec<Tensor>, &[(usize, usize)]),
    f: &mut LeafFunction<'_>,
) -> Result<(Vec<Tensor>, CompanionPullback)> {
    let wrt = leaves_where(positions, |i, param, _| {
        asked[param] && all[i].dtype().is_float()
    });
    let trace = trace_of_chosen(&all, &wrt, f)?;
    let (y, pullback) = pullback_of(trace, &chosen(&all, &wrt))?;
    // The caller's derivative assumes that results have the prefix of the argument that has most axes.
    let longest = all.iter().map(Tensor::batch_dims).max().unwrap_or(0);
    if let Some(y) = y.iter().find(|y| y.batch_dims() > longest) {
        let aval = y.aval().clone();
        return Err(PrefixFault::Changed { aval }.into_error("vjp"));
    }
    let bytes = pullback.bytes();
    let pullback = pullback.into_leaves();
    let n_params = asked.len();
    let run = move |pullback: &LeafPullback, cts: &[Option<Tensor>]| {
        let mut pulled = LeafCotangents::new(n_params);
        for (place, ct) in wrt.iter().zip(expect(pullback.call(cts))) {
            if let Some(ct) = ct {
                let given = cts.iter().flatten().map(Tensor::batch_dims);
                if given.max() < Some(ct.batch_dims()) {
                    let aval = ct.aval().clone();
                    raise(PrefixFault::Changed { aval }.into_error("vjp"));
                }
                pulled.add(place.param, place.leaf, &ct);
            }
        }
        pulled
    };
    Ok((y, CompanionPullback::new(likes, bytes, pullback, run)))
}

impl Residuals for LeafPullback {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.visit_residuals(f);
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> LeafPullback {
        self.map_residuals(f)
    }
}

/// Records a function for its result and tangent.
///
/// A tangent that is not given is zero, and values that depend only on zeros are not computed.
#[track_caller]
pub fn record_jvp<X, R>(
    given: &[Leaves],
    x: Arguments<X>,
    f: impl FnOnce(&X) -> R,
) -> R::Wrap<(R::Tree, Leaves)>
where
    X: Tree,
    R: Outcome,
{
    let mut y = None;
    let mut f = on_leaves(f, &x.copies, &mut y);
    let found = jvp_of_leaves(given, x.leaves(), &mut f);
    drop(f);
    R::wrap(found.map(|(leaves, tangents)| {
        let y = y.expect("the function was traced");
        (with_leaves(&y, &leaves), tangents)
    }))
}

/// [`record_jvp`] of a function of leaves.
fn jvp_of_leaves(
    given: &[Leaves],
    (all, positions): (Vec<Tensor>, &[(usize, usize)]),
    f: &mut LeafFunction<'_>,
) -> Result<(Vec<Tensor>, Leaves)> {
    let tangent = |param: usize, leaf: usize| given[param].get(leaf).and_then(Option::as_ref);
    let wrt = leaves_where(positions, |i, param, leaf| {
        tangent(param, leaf).is_some() && all[i].dtype().is_float()
    });
    let dx = wrt.iter().filter_map(|place| {
        let dx = tangent(place.param, place.leaf)?.clone();
        Some(dx.repeated_over(all[place.index].aval()))
    });
    let dx: Vec<Tensor> = dx.collect();
    let trace = trace_of_chosen(&all, &wrt, f)?;
    let (y, dy) = joint_of(trace, chosen(&all, &wrt))?.call(&dx)?;
    Ok((y, dy.into_iter().map(Some).collect()))
}

/// Traces a function of leaves on fresh values of the chosen ones. All other leaves keep their values.
fn trace_of_chosen(
    all: &[Tensor],
    wrt: &[Place],
    f: &mut LeafFunction<'_>,
) -> Result<Trace<Vec<Tensor>>> {
    let mut of_chosen = |fresh: &[Tensor]| {
        let mut all = all.to_vec();
        for (place, leaf) in wrt.iter().zip(fresh) {
            all[place.index] = leaf.clone();
        }
        f(&all)
    };
    trace_leaves(&mut of_chosen, &chosen(all, wrt), &vec![false; wrt.len()])
}

/// A leaf of the arguments.
#[derive(Clone)]
struct Place {
    /// Index among the leaves of all arguments.
    index: usize,
    /// Parameter that the leaf belongs to.
    param: usize,
    /// Index among the leaves of that parameter.
    leaf: usize,
}

/// Returns the leaves for which `is_one(index, param, leaf)` holds.
fn leaves_where(
    positions: &[(usize, usize)],
    is_one: impl Fn(usize, usize, usize) -> bool,
) -> Vec<Place> {
    let all = positions
        .iter()
        .rev()
        .flat_map(|&(param, n_leaves)| (0..n_leaves).map(move |leaf| (param, leaf)));
    let places = all
        .enumerate()
        .map(|(index, (param, leaf))| Place { index, param, leaf });
    places
        .filter(|place| is_one(place.index, place.param, place.leaf))
        .collect()
}

/// Returns the leaves at the given places.
fn chosen(all: &[Tensor], wrt: &[Place]) -> Vec<Tensor> {
    wrt.iter().map(|place| all[place.index].clone()).collect()
}

/// Returns the number of leaves of an argument.
pub fn n_leaves<T: TreePart + ?Sized>(x: &T) -> usize {
    let mut n = 0;
    x.visit_part(&mut |_| n += 1);
    n
}

/// Returns whether any tangent of an argument is nonzero.
pub fn any_given(given: &[Option<Tensor>]) -> bool {
    given.iter().any(Option::is_some)
}

/// Returns whether any leaf of an argument is a float.
pub fn any_float<T: Tree>(x: &T) -> bool {
    let mut any = false;
    x.visit(&mut |leaf| any |= leaf.dtype().is_float());
    any
}

/// Returns whether all leaves of an argument are floats.
pub fn all_floats<T: Tree>(x: &T) -> bool {
    let mut all = true;
    x.visit(&mut |leaf| all &= leaf.dtype().is_float());
    all
}

/// Returns whether any tangent of an argument is zero.
#[track_caller]
pub fn is_partial<T: Tree>(given: &[Option<Tensor>], x: &T) -> bool {
    check_given(given, n_leaves(x));
    given.iter().flatten().count() != n_leaves(x)
}

/// [`record_vjp`] for functions with an error type of their own.
pub fn record_vjp_as<X, Y, E, const N: usize>(
    likes: [Vec<Aval>; N],
    asked: &[bool; N],
    x: Arguments<X>,
    f: impl FnOnce(&X) -> Result<Y, E>,
) -> Result<(Y, CompanionPullback), E>
where
    X: Tree,
    Y: Tree,
    E: From<Error>,
{
    let mut own = None;
    let found = record_vjp(likes, asked, x, |x| set_aside(f(x), &mut own));
    found.map_err(|error| own.unwrap_or_else(|| error.into()))
}

/// [`record_jvp`] for functions with an error type of their own.
pub fn record_jvp_as<X, Y, E>(
    given: &[Leaves],
    x: Arguments<X>,
    f: impl FnOnce(&X) -> Result<Y, E>,
) -> Result<(Y, Leaves), E>
where
    X: Tree,
    Y: Tree,
    E: From<Error>,
{
    let mut own = None;
    let found = record_jvp(given, x, |x| set_aside(f(x), &mut own));
    found.map_err(|error| own.unwrap_or_else(|| error.into()))
}

/// Forward mode over a gradient function with an error type of its own.
#[track_caller]
pub fn record_hvp<X, E>(
    gradient: impl FnOnce(&X) -> Result<X, E>,
    x: &X,
    dx: &X,
) -> Result<(X, X), E>
where
    X: Tree,
    E: From<Error>,
{
    let mut own = None;
    let found = crate::transform::jvp(|x: &X| set_aside(gradient(x), &mut own), x, dx);
    found.map_err(|error| own.unwrap_or_else(|| error.into()))
}

/// Stores the user's error in `own` and returns a placeholder.
///
/// The caller replaces the placeholder by the stored error.
pub(super) fn set_aside<Y, E>(result: Result<Y, E>, own: &mut Option<E>) -> Result<Y> {
    result.map_err(|error| {
        *own = Some(error);
        Error::Structure {
            what: "result",
            found: 0,
            expected: 1,
        }
    })
}
