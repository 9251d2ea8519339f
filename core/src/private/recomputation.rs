//! Segments of checkpointed loops, which the pullback runs again.

use crate::Tensor;
use crate::call::companion_pullback::LeafCotangents;
use crate::raise::expect;
use std::fmt;
use std::sync::Arc;

/// Recomputes the steps of a segment of a loop.
pub struct Recomputation<T>(Arc<dyn Fn() -> Vec<T> + Send + Sync>);

impl<T> Recomputation<T> {
    /// Wraps the function that runs the segment.
    pub fn new(run: impl Fn() -> Vec<T> + Send + Sync + 'static) -> Recomputation<T> {
        Recomputation(Arc::new(run))
    }

    /// Runs the segment.
    #[track_caller]
    pub fn run(&self) -> Vec<T> {
        (self.0)()
    }
}

impl<T> Clone for Recomputation<T> {
    fn clone(&self) -> Recomputation<T> {
        Recomputation(self.0.clone())
    }
}

impl<T> fmt::Debug for Recomputation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recomputation").finish_non_exhaustive()
    }
}

/// Evaluates values immediately.
///
/// A pending value would keep everything that it is computed from. The equations of the second run
/// would then be merged with those of the first, and nothing would be saved.
#[track_caller]
pub fn settle<const N: usize>(values: [Option<&Tensor>; N], pulled: &LeafCotangents) {
    let mut all: Vec<Tensor> = values.into_iter().flatten().cloned().collect();
    all.extend(pulled.all().cloned());
    expect(crate::evaluate(&all));
}
