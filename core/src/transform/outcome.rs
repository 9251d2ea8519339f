//! Result types of differentiated closures: a tree, or a `Result` of one.

use crate::raise::{catch, expect, raise_in_made};
use crate::{Error, Result, Tree, observe};
use std::panic::Location;

/// Result type of a closure that is differentiated: a [`Tree`], or a [`Result`] of one.
///
/// If the closure returns `Result`, so does the transform, and an op that does not accept its
/// operands is an `Err`. Otherwise the op panics at the user's line.
pub trait Outcome: Sized {
    /// Tree that the closure returns on success.
    type Tree: Tree;
    /// `T`, or `Result<T>` if the closure returns `Result`.
    type Wrap<T>;

    #[doc(hidden)]
    fn run(f: impl FnOnce() -> Self) -> Result<Self::Tree>;
    #[doc(hidden)]
    #[track_caller]
    fn wrap<T>(result: Result<T>) -> Self::Wrap<T>;
    #[doc(hidden)]
    fn wrap_made<T>(result: Result<T>, made: TransformSite) -> Self::Wrap<T>;
    #[doc(hidden)]
    fn unwrap<T>(wrap: Self::Wrap<T>) -> Result<T>;
}

/// Call site of the transform or companion that returned a function. Such a closure cannot know
/// its own caller.
#[derive(Clone, Copy, Debug)]
pub struct TransformSite {
    by: &'static str,
    at: &'static Location<'static>,
}

impl TransformSite {
    /// Records the name of the transform and its caller.
    #[track_caller]
    #[inline]
    pub fn by(by: &'static str) -> TransformSite {
        let at = Location::caller();
        TransformSite { by, at }
    }

    /// Returns the value, or raises the error with the place of the transform.
    #[track_caller]
    pub(crate) fn expect<T>(self, result: Result<T>) -> T {
        match result {
            Ok(value) => value,
            Err(error) => raise_in_made(error, self.by, self.at),
        }
    }

    /// Returns the result. The ops that were recorded last have the line of the transform, if lines are noted.
    fn noted<T>(self, result: Result<T>) -> Result<T> {
        if result.is_ok() {
            observe::note_transform(self.at);
        }
        result
    }
}

impl<Y: Tree> Outcome for Y {
    type Tree = Y;
    type Wrap<T> = T;

    fn run(f: impl FnOnce() -> Y) -> Result<Y> {
        Ok(f())
    }
    #[track_caller]
    fn wrap<T>(result: Result<T>) -> T {
        expect(result)
    }
    fn wrap_made<T>(result: Result<T>, made: TransformSite) -> T {
        made.expect(made.noted(result))
    }
    fn unwrap<T>(wrap: T) -> Result<T> {
        Ok(wrap)
    }
}

impl<Y: Tree> Outcome for Result<Y, Error> {
    type Tree = Y;
    type Wrap<T> = Result<T>;

    fn run(f: impl FnOnce() -> Self) -> Result<Y> {
        catch(f)
    }
    fn wrap<T>(result: Result<T>) -> Result<T> {
        result
    }
    fn wrap_made<T>(result: Result<T>, made: TransformSite) -> Result<T> {
        made.noted(result)
    }
    fn unwrap<T>(wrap: Result<T>) -> Result<T> {
        wrap
    }
}

/// Result of a function that a transform runs inside of another one: a gradient that is differentiated, or
/// a turn of a loop.
///
/// An op of the user's closure that does not accept its operands panics at its line: nothing catches
/// its error, unless the closure returns `Result`.
pub(super) struct Uncaught<Y>(pub(super) Result<Y>);

impl<Y: Tree> Outcome for Uncaught<Y> {
    type Tree = Y;
    type Wrap<T> = Result<T>;

    fn run(f: impl FnOnce() -> Self) -> Result<Y> {
        f().0
    }
    fn wrap<T>(result: Result<T>) -> Result<T> {
        result
    }
    fn wrap_made<T>(result: Result<T>, made: TransformSite) -> Result<T> {
        made.noted(result)
    }
    fn unwrap<T>(wrap: Result<T>) -> Result<T> {
        wrap
    }
}
