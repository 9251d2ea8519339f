//! Steps of functions with control flow: the blocks that ran, each with its residuals.

use crate::call::companion_pullback::{CompanionPullback, LeafCotangents};
use crate::call::leaf_range::LeafRange;
use crate::call::leaves::{List, avals_all, share_tensors};
use crate::raise::expect;
use crate::{Aval, Error, Tensor};
use gradloom_ir::Static;
use std::fmt;
use std::sync::Arc;

/// Block that ran, with its residuals; or a segment of a checkpointed loop.
///
/// One type serves the blocks of all functions: an enum for each function would take rustc longer
/// than the rest of its companions.
#[derive(Clone, Debug)]
pub struct Step {
    block: usize,
    tensors: List<Tensor>,
    likes: List<Aval>,
    statics: List<Static>,
    calls: List<CompanionPullback>,
    places: List<LeafRange>,
    again: Option<Again>,
}

/// Number of a step that is a segment.
const SEGMENT: usize = usize::MAX;

impl Step {
    /// Creates a step of block `block`; dtype and shape are residuals of `likes`.
    pub fn new(block: usize, tensors: &[&Tensor], likes: &[&Tensor]) -> Step {
        Step {
            block,
            tensors: share_tensors(tensors),
            likes: avals_all(likes),
            statics: List::default(),
            calls: List::default(),
            places: List::default(),
            again: None,
        }
    }

    /// Creates a step that stands for those that `run` returns. `state` is the state of the loop at
    /// its start.
    pub fn segment(
        state: List<Tensor>,
        run: impl Fn() -> Vec<Step> + Send + Sync + 'static,
    ) -> Step {
        let again = Some(Again(Arc::new(run)));
        Step {
            tensors: state,
            again,
            ..Step::new(SEGMENT, &[], &[])
        }
    }

    /// Adds static arguments of the pullback.
    pub fn with_statics<const N: usize>(self, statics: [Static; N]) -> Step {
        let statics = statics.into();
        Step { statics, ..self }
    }

    /// Adds the pullbacks of calls.
    pub fn with_calls<const N: usize>(self, calls: [CompanionPullback; N]) -> Step {
        let calls = calls.into();
        Step { calls, ..self }
    }

    /// Adds the positions of inputs within their parameters.
    pub fn with_places<const N: usize>(self, places: [LeafRange; N]) -> Step {
        let places = places.into();
        Step { places, ..self }
    }

    /// Returns the number of the block.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Returns the tensors among the residuals.
    pub fn tensors(&self) -> &List<Tensor> {
        &self.tensors
    }

    pub(crate) fn tensors_mut(&mut self) -> &mut List<Tensor> {
        &mut self.tensors
    }

    /// Returns the residuals of which only dtype and shape are known.
    pub fn likes(&self) -> &List<Aval> {
        &self.likes
    }

    pub fn statics(&self) -> &List<Static> {
        &self.statics
    }

    pub fn calls(&self) -> &List<CompanionPullback> {
        &self.calls
    }

    pub(crate) fn calls_mut(&mut self) -> &mut List<CompanionPullback> {
        &mut self.calls
    }

    pub fn places(&self) -> &List<LeafRange> {
        &self.places
    }

    /// Runs a segment, and returns its steps.
    #[track_caller]
    pub fn run_again(&self) -> Vec<Step> {
        self.again
            .as_ref()
            .map_or_else(Vec::new, |again| (again.0)())
    }
}

/// Function that runs a segment of a loop.
#[derive(Clone)]
struct Again(Arc<dyn Fn() -> Vec<Step> + Send + Sync>);

impl fmt::Debug for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Again").finish_non_exhaustive()
    }
}

/// Evaluates values immediately.
///
/// A pending value would keep everything that it is computed from. The equations of the second run
/// would then be merged with those of the first, and nothing would be saved. The values of one lane of
/// `vmap` stay pending: they have no elements.
#[track_caller]
pub fn settle<const N: usize>(values: [Option<&Tensor>; N], pulled: &LeafCotangents) {
    let mut all: Vec<Tensor> = values.into_iter().flatten().cloned().collect();
    all.extend(pulled.all().cloned());
    match crate::evaluate(&all) {
        Err(Error::Lane) => {}
        evaluated => expect(evaluated),
    }
}
