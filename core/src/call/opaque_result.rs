//! Results that are trees of a type unknown to the macro.

use super::pullback::CallPullback;
use super::site::{CallRecording, CallResults, RecordedPullback, Shape, Template};
use crate::Tree;
use crate::call::companion_pullback::CompanionPullback;
use crate::call::leaves::structure;
use crate::tree::key::{CallKey, Obstacle, shared};
use std::marker::PhantomData;
use std::rc::Rc;

/// Type of the result of a call whose structure is known only from a value.
pub struct OpaqueResult<T>(pub PhantomData<T>);

/// A result that is a tree.
pub trait TreeResult<T> {
    /// Returns the results in the structure that the body returned.
    fn results(self, results: &mut CallResults) -> T;
    /// Ends the recording of a body.
    fn end(self, recording: CallRecording, y: T) -> T;
    /// Ends the recording of a body that also returns a pullback.
    fn end_pull(
        self,
        recording: CallRecording,
        y: T,
        pull: CompanionPullback,
        wrt: &[usize],
    ) -> (T, CallPullback);
    /// Ends the recording of a body that also returns gradients.
    fn end_beside<G: Tree>(self, recording: CallRecording, both: (T, G)) -> (T, G);
}

impl<T: Tree + 'static> TreeResult<T> for &&OpaqueResult<T> {
    fn results(self, results: &mut CallResults) -> T {
        let template = results.template.clone();
        let template = template.as_ref().and_then(|t| t.tree.downcast_ref::<T>());
        results.like(template.expect("the structure of the result is kept beside the plan"))
    }

    fn end(self, recording: CallRecording, mut y: T) -> T {
        let Some(begun) = recording.begun else {
            return y;
        };
        let shape = shape(&y);
        begun.end(&mut |f| y.visit_mut(f), shape, RecordedPullback::default());
        y
    }

    fn end_pull(
        self,
        recording: CallRecording,
        y: T,
        pull: CompanionPullback,
        wrt: &[usize],
    ) -> (T, CallPullback) {
        let shape = shape(&y);
        recording.end_pull_like(y, pull, wrt, shape)
    }

    fn end_beside<G: Tree>(self, recording: CallRecording, mut both: (T, G)) -> (T, G) {
        if let Some(begun) = recording.begun {
            let shape = shape(&both.0);
            begun.end(
                &mut |f| both.visit_mut(f),
                shape,
                RecordedPullback::default(),
            );
        }
        both
    }
}

/// Describes how a site can cache the structure of a result. Later results get clones of the
/// skipped fields, so these may not hold tensors or anything shared.
fn shape<T: Tree + 'static>(y: &T) -> Shape {
    let key = CallKey::of_result(y);
    match key.obstacle() {
        None => Shape::Cached(Rc::new(Template {
            tree: Box::new(structure(y)),
            structure: key.own(),
        })),
        Some(Obstacle::Shared(ty)) => Shape::Uncached(shared(ty).into()),
        Some(Obstacle::Tree(ty)) => Shape::Uncached(
            format!("the result holds a `{ty}`, whose `Tree` is not derived").into(),
        ),
        Some(_) => Shape::Uncached("the structure of the result cannot be cached".into()),
    }
}

/// Returns why a site cannot cache the structure of a result, judging by its type alone. Only the
/// return type of the closure is used: it never runs.
pub const fn why_not_cached<R: ResultShape, F: Fn() -> R>(_: &F) -> Option<&'static str> {
    R::WHY_NOT
}

/// Returns why no key can hold an argument, judging by its type alone. Only the return type of the
/// closure is used: it never runs.
pub const fn why_not_keyed<R: ResultShape, F: Fn() -> R>(_: &F) -> Option<&'static str> {
    R::UNKEYED
}

/// A type of arguments or results, whose structure a site may be able to cache.
pub trait ResultShape {
    /// Reason why no key can hold an argument of the type, or `None` if one may.
    const UNKEYED: Option<&'static str>;
    /// Reason why a site cannot cache the structure, or `None` if it can.
    const WHY_NOT: Option<&'static str>;
}

impl<T: Tree> ResultShape for OpaqueResult<T> {
    const UNKEYED: Option<&'static str> = T::__UNKEYED;
    const WHY_NOT: Option<&'static str> = T::__SHARED;
}

impl ResultShape for () {
    const UNKEYED: Option<&'static str> = None;
    const WHY_NOT: Option<&'static str> = None;
}

/// Results that are trees, for [`why_not_cached`].
pub trait TreeResultShape<T>: Sized {
    /// Names the type of the result.
    fn result_shape(self) -> OpaqueResult<T> {
        OpaqueResult(PhantomData)
    }
}

impl<T: Tree> TreeResultShape<T> for &&OpaqueResult<T> {}

/// Results that are not trees, for [`why_not_cached`].
pub trait NoResultShape: Sized {
    /// Returns nothing: a type that is not a tree has no structure.
    fn result_shape(self) {}
}

impl<T> NoResultShape for &OpaqueResult<T> {}

/// A result that is not a tree, which is reported as an error elsewhere.
pub trait NonTreeResult<T> {
    /// Cannot be called: there is no such result.
    fn results(self, results: &mut CallResults) -> T;
    /// Ends the recording of a body.
    fn end(self, recording: CallRecording, y: T) -> T;
    /// Ends the recording of a body that also returns a pullback.
    fn end_pull(
        self,
        recording: CallRecording,
        y: T,
        pull: CompanionPullback,
        wrt: &[usize],
    ) -> (T, CallPullback);
    /// Ends the recording of a body that also returns gradients.
    fn end_beside<G: Tree>(self, recording: CallRecording, both: (T, G)) -> (T, G);
}

impl<T> NonTreeResult<T> for &OpaqueResult<T> {
    fn results(self, _: &mut CallResults) -> T {
        unreachable!("a site does not cache calls whose result is not a tree")
    }

    fn end(self, recording: CallRecording, y: T) -> T {
        drop(recording);
        y
    }

    fn end_pull(
        self,
        recording: CallRecording,
        y: T,
        pull: CompanionPullback,
        _: &[usize],
    ) -> (T, CallPullback) {
        drop(recording);
        (y, CallPullback::recorded(pull, &()))
    }

    fn end_beside<G: Tree>(self, recording: CallRecording, both: (T, G)) -> (T, G) {
        drop(recording);
        both
    }
}
