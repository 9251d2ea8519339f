//! Segments of checkpointed loops, which the pullback runs again.

use crate::Tensor;
use crate::call::pull::Pulled;
use crate::raise::expect;
use std::fmt;
use std::sync::Arc;

/// Recomputes the steps of a segment of a loop.
pub struct Again<T>(Arc<dyn Fn() -> Vec<T> + Send + Sync>);

impl<T> Again<T> {
    /// Wraps the function that runs the segment.
    pub fn new(run: impl Fn() -> Vec<T> + Send + Sync + 'static) -> Again<T> {
        Again(Arc::new(run))
    }

    /// Runs the segment.
    #[track_caller]
    pub fn run(&self) -> Vec<T> {
        (self.0)()
    }
}

impl<T> Clone for Again<T> {
    fn clone(&self) -> Again<T> {
        Again(self.0.clone())
    }
}

impl<T> fmt::Debug for Again<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Again").finish_non_exhaustive()
    }
}

/// Evaluates values immediately.
///
/// A pending value would keep everything that it is computed from. The equations of the second run
/// would then be merged with those of the first, and nothing would be saved.
#[track_caller]
pub fn settle<const N: usize>(values: [Option<&Tensor>; N], pulled: &Pulled) {
    let mut all: Vec<Tensor> = values.into_iter().flatten().cloned().collect();
    all.extend(pulled.all().cloned());
    expect(crate::evaluate(&all));
}
