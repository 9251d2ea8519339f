//! Results that are trees of a type which the macro does not see.

use super::pullback::Pullback;
use super::site::{Kept, Recording, Results};
use crate::__private::Pull;
use crate::Tree;
use std::any::Any;
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
        let template = template.as_ref().and_then(|t| t.downcast_ref::<T>());
        results.like(template.expect("the structure of the result is kept beside the plan"))
    }

    fn end(self, recording: Recording, mut y: T) -> T {
        let Some(begun) = recording.0 else {
            return y;
        };
        let template = template(&y);
        begun.end(&mut |f| y.visit_mut(f), Some(template), Kept::default());
        y
    }

    fn end_pull(self, recording: Recording, y: T, pull: Pull, wrt: &[usize]) -> (T, Pullback) {
        let template = template(&y);
        recording.end_pull_like(y, pull, wrt, Some(template))
    }
}

/// The structure of a tree, which keeps nothing else of it alive.
fn template<T: Tree + 'static>(y: &T) -> Rc<dyn Any> {
    Rc::new(crate::__private::structure(y))
}

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
