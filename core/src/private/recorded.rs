//! Derivatives of functions that are recorded when they run.

use super::{Leaves, Pull, Pulled};
use crate::record::expect;
use crate::transform::{Outcome, vjp};
use crate::tree::{leaves as leaves_of, with_leaves};
use crate::{Aval, Error, Result, Tensor, Tree};

/// [`catch`](super::catch) for functions with an error type of their own.
pub fn catch_as<T, E: From<Error>>(body: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    super::catch(|| Ok(body()))?
}

/// Where the arguments stand among the parameters of a function, each with the number of its leaves.
pub type Positions<'a> = &'a [(usize, usize)];

/// Runs a function and records what it does, for its pullback.
///
/// `x` holds the tensors and trees among the arguments. Those that are `asked` for have cotangents; a leaf that is not a float
/// has none.
#[track_caller]
pub fn record_vjp<X, R, const N: usize>(
    likes: [Vec<Aval>; N],
    asked: &[bool; N],
    positions: Positions<'_>,
    x: &X,
    f: impl FnOnce(&X) -> R,
) -> R::Wrap<(R::Tree, Pull)>
where
    X: Tree,
    R: Outcome,
{
    let all = leaves_of(x);
    let wrt = leaves_where(positions, |i, param, _| {
        asked[param] && all[i].dtype().is_float()
    });
    let active: Vec<usize> = wrt.iter().map(|place| place.index).collect();
    let found = R::unwrap(vjp::<Vec<Tensor>, R, _>(
        on_leaves(x, &all, &active, f),
        &chosen(&all, &active),
    ));
    R::wrap(found.map(|(y, pullback)| {
        let bytes = pullback.bytes();
        let pullback = pullback.into_leaves();
        let run = move |cts: &[Option<Tensor>]| {
            let mut pulled = Pulled::new(N);
            for (place, ct) in wrt.iter().zip(expect(pullback.call(cts))) {
                if let Some(ct) = ct {
                    pulled.add(place.param, place.leaf, &ct);
                }
            }
            pulled
        };
        (y, Pull::new(likes, bytes, run))
    }))
}

/// Runs a function and records what it does, for its result and its tangent.
///
/// The tangents that are not given are zero, and what depends on them alone is not computed.
#[track_caller]
pub fn record_jvp<X, R>(
    given: &[Leaves],
    positions: Positions<'_>,
    x: &X,
    f: impl FnOnce(&X) -> R,
) -> R::Wrap<(R::Tree, Leaves)>
where
    X: Tree,
    R: Outcome,
{
    let all = leaves_of(x);
    let tangent = |param: usize, leaf: usize| given[param].get(leaf).and_then(Option::as_ref);
    let wrt = leaves_where(positions, |i, param, leaf| {
        tangent(param, leaf).is_some() && all[i].dtype().is_float()
    });
    let dx = wrt
        .iter()
        .filter_map(|place| tangent(place.param, place.leaf).cloned());
    let dx: Vec<Tensor> = dx.collect();
    let active: Vec<usize> = wrt.iter().map(|place| place.index).collect();
    let found = R::unwrap(crate::transform::jvp::<Vec<Tensor>, R, _>(
        on_leaves(x, &all, &active, f),
        &chosen(&all, &active),
        &dx,
    ));
    R::wrap(found.map(|(y, dy)| {
        let dy = leaves_of(&dy).into_iter().map(Some).collect();
        (y, dy)
    }))
}

/// A leaf among those of all arguments.
struct Place {
    /// Its number among them.
    index: usize,
    /// The parameter that it belongs to.
    param: usize,
    /// Its number among the leaves of that parameter.
    leaf: usize,
}

/// The leaves, given by their number among all, their parameter and their number in it, for which `is_one` holds.
fn leaves_where(
    positions: Positions<'_>,
    is_one: impl Fn(usize, usize, usize) -> bool,
) -> Vec<Place> {
    let all = positions
        .iter()
        .flat_map(|&(param, n_leaves)| (0..n_leaves).map(move |leaf| (param, leaf)));
    let places = all
        .enumerate()
        .map(|(index, (param, leaf))| Place { index, param, leaf });
    places
        .filter(|place| is_one(place.index, place.param, place.leaf))
        .collect()
}

/// The leaves with these numbers.
fn chosen(all: &[Tensor], active: &[usize]) -> Vec<Tensor> {
    active.iter().map(|i| all[*i].clone()).collect()
}

/// `f`, which takes a tree of the leaves `all`, as a function of those that are `active`.
fn on_leaves<X: Tree, R>(
    x: &X,
    all: &[Tensor],
    active: &[usize],
    f: impl FnOnce(&X) -> R,
) -> impl FnOnce(&Vec<Tensor>) -> R {
    move |fresh| {
        let mut all = all.to_vec();
        for (i, leaf) in active.iter().zip(fresh) {
            all[*i] = leaf.clone();
        }
        f(&with_leaves(x, &all))
    }
}

/// The number of leaves of an argument.
pub fn n_leaves<T: Tree>(x: &T) -> usize {
    let mut n = 0;
    x.visit(&mut |_| n += 1);
    n
}

/// Whether a tangent of an argument is not zero.
pub fn any_given(given: &[Option<Tensor>]) -> bool {
    given.iter().any(Option::is_some)
}

/// Whether a leaf of an argument may have a derivative.
pub fn any_float<T: Tree>(x: &T) -> bool {
    let mut any = false;
    x.visit(&mut |leaf| any |= leaf.dtype().is_float());
    any
}

/// Whether all leaves of an argument may have derivatives.
pub fn all_floats<T: Tree>(x: &T) -> bool {
    let mut all = true;
    x.visit(&mut |leaf| all &= leaf.dtype().is_float());
    all
}

/// Whether some of the tangents of an argument are zero.
pub fn is_partial<T: Tree>(given: &[Option<Tensor>], x: &T) -> bool {
    given.iter().flatten().count() != n_leaves(x)
}

/// [`record_vjp`] for functions with an error type of their own.
pub fn record_vjp_as<X, Y, E, const N: usize>(
    likes: [Vec<Aval>; N],
    asked: &[bool; N],
    positions: Positions<'_>,
    x: &X,
    f: impl FnOnce(&X) -> Result<Y, E>,
) -> Result<(Y, Pull), E>
where
    X: Tree,
    Y: Tree,
    E: From<Error>,
{
    let mut own = None;
    let found = record_vjp(likes, asked, positions, x, |x| set_aside(f(x), &mut own));
    found.map_err(|error| own.unwrap_or_else(|| error.into()))
}

/// [`record_jvp`] for functions with an error type of their own.
pub fn record_jvp_as<X, Y, E>(
    given: &[Leaves],
    positions: Positions<'_>,
    x: &X,
    f: impl FnOnce(&X) -> Result<Y, E>,
) -> Result<(Y, Leaves), E>
where
    X: Tree,
    Y: Tree,
    E: From<Error>,
{
    let mut own = None;
    let found = record_jvp(given, positions, x, |x| set_aside(f(x), &mut own));
    found.map_err(|error| own.unwrap_or_else(|| error.into()))
}

/// Forward mode over a function that returns a gradient, for functions with an error type of their own.
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

/// Keeps the caller's own error while one of ours takes its way out.
fn set_aside<Y, E>(result: Result<Y, E>, own: &mut Option<E>) -> Result<Y> {
    result.map_err(|error| {
        *own = Some(error);
        Error::Structure {
            what: "result",
            found: 0,
            expected: 1,
        }
    })
}
