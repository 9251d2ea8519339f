//! Results that are trees of a type which the macro does not see.

use super::key::{CallKey, Obstacle, shared};
use super::pullback::Pullback;
use super::site::{Kept, Recording, Results, Shape, Template};
use crate::__private::{Pull, structure};
use crate::Tree;
use std::marker::PhantomData;
use std::rc::Rc;

/// The results of a call as a whole, where only a value of their type tells their structure.
pub struct Whole<T>(pub PhantomData<T>);

/// Results that are a tree.
pub trait OfWhole<T> {
    /// The results, in the structure that the body gave them.
    fn results(self, results: &mut Results) -> T;
    /// The end of a body.
    fn end(self, recording: Recording, y: T) -> T;
    /// The end of a body that returns a pullback, too.
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

/// How a site keeps the structure of a result. Each later result has clones of the skipped fields, so these may hold neither a tensor
/// nor anything else that results would share.
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
        Some(_) => Shape::Unkept("the structure of the result cannot be kept".into()),
    }
}

/// Why a site cannot keep the structure of a result, as far as the type says. The function that has its type never runs.
pub const fn unkept<R: KeptShape, F: Fn() -> R>(_: &F) -> Option<&'static str> {
    R::WHY_NOT
}

/// Whether a site can keep the structure of results of a type.
pub trait KeptShape {
    /// Why not.
    const WHY_NOT: Option<&'static str>;
}

impl<T: Tree> KeptShape for Whole<T> {
    const WHY_NOT: Option<&'static str> = T::__SHARED;
}

impl KeptShape for () {
    const WHY_NOT: Option<&'static str> = None;
}

/// Results that are a tree, for [`unkept`].
pub trait ShapeOfTree<T>: Sized {
    /// Says whether a site can keep their structure.
    fn kept_shape(self) -> Whole<T> {
        Whole(PhantomData)
    }
}

impl<T: Tree> ShapeOfTree<T> for &&Whole<T> {}

/// Results that are no tree, for [`unkept`].
pub trait NoShape: Sized {
    /// There is nothing to say.
    fn kept_shape(self) {}
}

impl<T> NoShape for &Whole<T> {}

/// Results that are no tree, which is an error elsewhere.
pub trait NoWhole<T> {
    /// There are none.
    fn results(self, results: &mut Results) -> T;
    /// The end of a body.
    fn end(self, recording: Recording, y: T) -> T;
    /// The end of a body that returns a pullback, too.
    fn end_pull(self, recording: Recording, y: T, pull: Pull, wrt: &[usize]) -> (T, Pullback);
}

impl<T> NoWhole<T> for &Whole<T> {
    fn results(self, _: &mut Results) -> T {
        unreachable!("a site learns no call whose result is no tree")
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
