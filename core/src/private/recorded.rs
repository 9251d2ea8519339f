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

/// Runs a function and records what it does, for its pullback.
///
/// `x` holds the arguments that derivatives are taken with respect to, which stand at `positions` among the
/// parameters.
#[track_caller]
pub fn record_vjp<X, R, const N: usize>(
    likes: [Vec<Aval>; N],
    positions: &[usize],
    x: &X,
    f: impl FnOnce(&X) -> R,
) -> R::Wrap<(R::Tree, Pull)>
where
    X: Tree,
    R: Outcome,
{
    let found = R::unwrap(vjp::<X, R, _>(f, x));
    let positions = positions.to_vec();
    R::wrap(found.map(|(y, pullback)| {
        let bytes = pullback.bytes();
        let pullback = pullback.into_leaves();
        let sizes: Vec<usize> = positions.iter().map(|i| likes[*i].len()).collect();
        let run = move |cts: &[Option<Tensor>]| {
            let mut pulled = Pulled::new(N);
            let mut found = expect(pullback.call(cts)).into_iter();
            for (position, size) in positions.iter().zip(&sizes) {
                pulled.params[*position] = found.by_ref().take(*size).collect();
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
    positions: &[usize],
    x: &X,
    f: impl FnOnce(&X) -> R,
) -> R::Wrap<(R::Tree, Leaves)>
where
    X: Tree,
    R: Outcome,
{
    // The leaves of the arguments stand one after the other.
    let all = leaves_of(x);
    let mut sizes = sizes(x, positions.len()).into_iter();
    let mut dx = Vec::with_capacity(all.len());
    for position in positions {
        let given = given[*position]
            .iter()
            .cloned()
            .chain(std::iter::repeat(None));
        dx.extend(given.take(sizes.next().unwrap_or(0)));
    }
    let active: Vec<usize> = (0..all.len()).filter(|i| dx[*i].is_some()).collect();
    let fresh: Vec<Tensor> = active.iter().map(|i| all[*i].clone()).collect();
    let dx: Vec<Tensor> = dx.into_iter().flatten().collect();
    let function = |fresh: &Vec<Tensor>| {
        let mut all = all.clone();
        for (i, leaf) in active.iter().zip(fresh) {
            all[*i] = leaf.clone();
        }
        f(&with_leaves(x, &all))
    };
    let found = R::unwrap(crate::transform::jvp::<Vec<Tensor>, R, _>(
        function, &fresh, &dx,
    ));
    R::wrap(found.map(|(y, dy)| {
        let dy = leaves_of(&dy).into_iter().map(Some).collect();
        (y, dy)
    }))
}

/// Whether some of the tangents of an argument are zero.
pub fn is_partial<T: Tree>(given: &[Option<Tensor>], x: &T) -> bool {
    given.iter().flatten().count() != leaves_of(x).len()
}

/// [`record_vjp`] for functions with an error type of their own.
pub fn record_vjp_as<X, Y, E, const N: usize>(
    likes: [Vec<Aval>; N],
    positions: &[usize],
    x: &X,
    f: impl FnOnce(&X) -> Result<Y, E>,
) -> Result<(Y, Pull), E>
where
    X: Tree,
    Y: Tree,
    E: From<Error>,
{
    let mut own = None;
    let found = record_vjp(likes, positions, x, |x| set_aside(f(x), &mut own));
    found.map_err(|error| own.unwrap_or_else(|| error.into()))
}

/// [`record_jvp`] for functions with an error type of their own.
pub fn record_jvp_as<X, Y, E>(
    given: &[Leaves],
    positions: &[usize],
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

/// How many leaves each `x_i` of `(x_0, (x_1, ..))` has, by the paths of the leaves.
fn sizes<X: Tree>(x: &X, n: usize) -> Vec<usize> {
    let mut paths = Vec::new();
    x.paths("", &mut paths);
    let mut sizes = vec![0; n];
    for path in paths {
        let (mut i, mut rest) = (0, &path[..]);
        while let Some(behind) = rest.strip_prefix(".1") {
            (i, rest) = (i + 1, behind);
        }
        sizes[i] += 1;
    }
    sizes
}
