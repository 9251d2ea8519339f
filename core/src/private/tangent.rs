//! Tangents and cotangents of arguments and results.

use crate::__private::part;
use crate::call::companion_pullback::{CompanionPullback, LeafCotangents};
use crate::call::leaf_range::LeafRange;
use crate::call::leaves::{Leaves, filled, zeros};
use crate::raise::expect;
use crate::tree::{frozen, leaves as leaves_of};
use crate::{Tensor, Tree, check};

/// Returns the tangent of a parameter that is a tensor.
#[track_caller]
pub fn tangent(given: &[Option<Tensor>], x: &Tensor) -> Tensor {
    check_given(given, 1);
    given
        .first()
        .cloned()
        .flatten()
        .unwrap_or_else(|| zeros(x.aval()))
}

/// Panics if an argument has more leaves than the parameter: a user's `Deref` has converted it.
#[track_caller]
pub(crate) fn check_given(given: &[Option<Tensor>], n: usize) {
    assert!(
        given.len() <= n,
        "an argument is a tree of {} tensors, and the traced function takes one of {n}: a `Deref` converts it; pass the part itself",
        given.len()
    );
}

/// Returns the tangent of a tensor in a tree.
pub fn tangent_at(given: &[Option<Tensor>], at: LeafRange, x: &Tensor) -> Tensor {
    tangent(&part(given, at), x)
}

/// Returns the tangent of result `i` of a call.
pub fn tangent_of(given: &[Option<Tensor>], i: usize, y: &Tensor) -> Tensor {
    given
        .get(i)
        .cloned()
        .flatten()
        .unwrap_or_else(|| zeros(y.aval()))
}

/// Returns the tangent of a result, in its structure.
pub fn tangent_tree<Y: Tree>(y: &Y, dy: &[Option<Tensor>]) -> Y {
    filled(y, dy)
}

/// Returns a result and its tangent, in its structure.
pub fn with_tangent<Y: Tree>((y, dy): (Y, Leaves)) -> (Y, Y) {
    let dy = tangent_tree(&y, &dy);
    (y, dy)
}

/// Returns the leaves of the user's tangent, after a check of its structure and of the argument, whose
/// leaves have to be floats.
#[track_caller]
pub fn tangent_leaves<T: Tree>(x: &T, dx: &T, name: &str) -> Leaves {
    check_floats(x, name);
    let found = leaves_of(dx);
    let expected = leaves_of(x);
    expect(check::beside(
        "tangent",
        x,
        name,
        &found,
        check::avals(&expected),
    ));
    // The tangent of a frozen leaf is zero.
    let found = found.into_iter().zip(frozen(x));
    found.map(|(dx, frozen)| (!frozen).then_some(dx)).collect()
}

/// Panics if a result is not a single float.
#[track_caller]
pub fn check_single(y: &Tensor) {
    expect(check::scalar(y));
}

/// Panics if a leaf of an argument is not a float.
#[track_caller]
pub fn check_floats<T: Tree>(x: &T, name: &str) {
    expect(check::floats(x, name));
}

/// Returns the result and the cotangents of the parameters, from that of the loss in it, which is
/// one. Panics if the loss is not a single float.
#[track_caller]
pub fn gradients<Y>(
    (y, pull): (Y, CompanionPullback),
    loss: impl FnOnce(&Y) -> &Tensor,
) -> (Y, LeafCotangents) {
    let loss = loss(&y);
    expect(check::scalar(loss));
    let cotangents = pull.call(&[Some(loss.ones_like())]);
    (y, cotangents)
}

/// Returns the cotangent of result `i`, which must not be zero.
pub fn cotangent(given: &[Option<Tensor>], i: usize) -> Tensor {
    let ct = given.get(i).cloned().flatten();
    ct.expect("the caller has checked that the cotangent is not zero")
}
