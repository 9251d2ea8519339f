//! Results that are trees of a type unknown to the macro.

use super::pullback::Pullback;
use super::site::{Kept, Recording, Results, Shape, Template};
use crate::Tree;
use crate::call::leaves::structure;
use crate::call::pull::Pull;
use crate::tree::key::{CallKey, Obstacle, shared};
use std::marker::PhantomData;
use std::rc::Rc;

/// Type of the result of a call whose structure is known only from a value.
pub struct Whole<T>(pub PhantomData<T>);

/// A result that is a tree.
pub trait OfWhole<T> {
    /// Returns the results in the structure that the body returned.
    fn results(self, results: &mut Results) -> T;
    /// Ends the recording of a body.
    fn end(self, recording: Recording, y: T) -> T;
    /// Ends the recording of a body that also returns a pullback.
    fn end_pull(self, recording: Recording, y: T, pull: Pull, wrt: &[usize]) -> (T, Pullback);
}

impl<T: Tree + 'static> OfWhole<T> for &&Whole<T> {
    fn results(self, results: &mut Results) -> T {
        let template = results.template.clone();
        let template = template.as_ref().and_then(|t| t.tree.downcast_ref::<T>());
        results.like(template.expect("the structure of the result is kept beside the plan"))
    }

    fn end(self, recording: Recording, mut y: T) -> T {
        let Some(begun) = recording.begun else {
            return y;
        };
        let shape = shape(&y);
        begun.end(&mut |f| y.visit_mut(f), shape, Kept::default());
        y
    }

    fn end_pull(self, recording: Recording, y: T, pull: Pull, wrt: &[usize]) -> (T, Pullback) {
        let shape = shape(&y);
        recording.end_pull_like(y, pull, wrt, shape)
    }
}

/// Describes how a site can cache the structure of a result. Later results get clones of the
/// skipped fields, so these may not hold tensors or anything shared.
fn shape<T: Tree + 'static>(y: &T) -> Shape {
    let key = CallKey::of_result(y);
    match key.obstacle() {
        None => Shape::Kept(Rc::new(Template {
            tree: Box::new(structure(y)),
            structure: key.own(),
        })),
        Some(Obstacle::Shared(ty)) => Shape::Unkept(shared(ty).into()),
        Some(Obstacle::Tree(ty)) => {
            Shape::Unkept(format!("the result holds a `{ty}`, whose `Tree` is not derived").into())
        }
        Some(_) => Shape::Unkept("the structure of the result cannot be cached".into()),
    }
}

/// Returns why a site cannot cache the structure of a result, judging by its type alone. Only the
/// return type of the closure is used: it never runs.
pub const fn unkept<R: KeptShape, F: Fn() -> R>(_: &F) -> Option<&'static str> {
    R::WHY_NOT
}

/// A type of results whose structure a site may be able to cache.
pub trait KeptShape {
    /// Reason why a site cannot cache the structure, or `None` if it can.
    const WHY_NOT: Option<&'static str>;
}

impl<T: Tree> KeptShape for Whole<T> {
    const WHY_NOT: Option<&'static str> = T::__SHARED;
}

impl KeptShape for () {
    const WHY_NOT: Option<&'static str> = None;
}

/// Results that are trees, for [`unkept`].
pub trait ShapeOfTree<T>: Sized {
    /// Names the type of the result.
    fn kept_shape(self) -> Whole<T> {
        Whole(PhantomData)
    }
}

impl<T: Tree> ShapeOfTree<T> for &&Whole<T> {}

/// Results that are not trees, for [`unkept`].
pub trait NoShape: Sized {
    /// Returns nothing: a type that is not a tree has no structure.
    fn kept_shape(self) {}
}

impl<T> NoShape for &Whole<T> {}

/// A result that is not a tree, which is reported as an error elsewhere.
pub trait NoWhole<T> {
    /// Cannot be called: there is no such result.
    fn results(self, results: &mut Results) -> T;
    /// Ends the recording of a body.
    fn end(self, recording: Recording, y: T) -> T;
    /// Ends the recording of a body that also returns a pullback.
    fn end_pull(self, recording: Recording, y: T, pull: Pull, wrt: &[usize]) -> (T, Pullback);
}

impl<T> NoWhole<T> for &Whole<T> {
    fn results(self, _: &mut Results) -> T {
        unreachable!("a site does not cache calls whose result is not a tree")
    }

    fn end(self, recording: Recording, y: T) -> T {
        drop(recording);
        y
    }

    fn end_pull(self, recording: Recording, y: T, pull: Pull, _: &[usize]) -> (T, Pullback) {
        drop(recording);
        (y, Pullback::recorded(pull, &()))
    }
}
