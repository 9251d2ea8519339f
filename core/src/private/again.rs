//! Pieces of checkpointed loops, which reverse mode runs again.

use super::Pulled;
use crate::Tensor;
use crate::record::expect;
use std::fmt;
use std::sync::Arc;

/// Makes the steps of some turns of a loop again.
pub struct Again<T>(Arc<dyn Fn() -> Vec<T> + Send + Sync>);

impl<T> Again<T> {
    /// From what runs the turns.
    pub fn new(run: impl Fn() -> Vec<T> + Send + Sync + 'static) -> Again<T> {
        Again(Arc::new(run))
    }

    /// Runs the turns.
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

/// Computes values here and now. A promise would keep all that it is computed from, and turns that are run again would
/// be found to be the same equations: nothing would be gained.
#[track_caller]
pub fn settle<const N: usize>(values: [Option<&Tensor>; N], pulled: &Pulled) {
    let mut all: Vec<Tensor> = values.into_iter().flatten().cloned().collect();
    all.extend(pulled.all().cloned());
    expect(crate::evaluate(&all));
}
