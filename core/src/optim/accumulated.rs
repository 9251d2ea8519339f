//! Gradients of micro-batches, accumulated.

use super::Optimiser;
use super::update::{choose, zeros_in_state};
use crate::raise::raise;
use crate::{Error, Tensor, Tree, tree};

/// An optimiser that takes one step for `n` micro-batches, by the mean of their gradients.
///
/// [`Optimiser::accumulated`] makes it. The other steps only add the gradients. If a loss is a mean over
/// examples and all micro-batches have equally many, the step is that of one batch with all of them. All
/// steps are the same graph, and the count is data.
///
/// ```
/// use gradloom::optim::Sgd;
/// use gradloom::prelude::*;
///
/// let sgd = Sgd { lr: 1.0, ..Sgd::default() }.accumulated(2);
/// let x = Tensor::from([0.0f32]);
/// let (x, state) = sgd.step(&x, &Tensor::from([1.0f32]), &sgd.init(&x));
/// assert_eq!(x.to_vec::<f32>(), [0.0]);
/// let (x, _state) = sgd.step(&x, &Tensor::from([3.0f32]), &state);
/// assert_eq!(x.to_vec::<f32>(), [-2.0]);
/// ```
///
/// # Panics
///
/// As for [`Optimiser`], and if `n` is zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accumulated<O> {
    /// Optimiser that takes the steps.
    pub optimiser: O,
    /// Number of micro-batches for one step.
    pub n: usize,
}

/// State of [`Accumulated`] between steps.
#[derive(Clone, Debug, Tree)]
pub struct AccumulatedState<P, S> {
    /// Number of gradients in the sum, an `i64` of rank 0.
    pub count: Tensor,
    /// Sum of the gradients.
    pub sum: P,
    /// State of the optimiser.
    pub inner: S,
}

impl<O: Optimiser> Optimiser for Accumulated<O> {
    type State<P: Tree> = AccumulatedState<P, O::State<P>>;

    #[track_caller]
    fn init<P: Tree>(&self, params: &P) -> Self::State<P> {
        AccumulatedState {
            count: Tensor::scalar(0i64),
            sum: zeros_in_state(params),
            inner: self.optimiser.init(params),
        }
    }

    fn lr(&self) -> f64 {
        self.optimiser.lr()
    }

    #[track_caller]
    fn step_with<P: Tree>(
        &self,
        lr: &Tensor,
        params: &P,
        grads: &P,
        state: &Self::State<P>,
    ) -> (P, Self::State<P>) {
        self.stepped(params, grads, state, |mean| {
            self.optimiser.step_with(lr, params, mean, &state.inner)
        })
    }

    #[track_caller]
    fn step<P: Tree>(&self, params: &P, grads: &P, state: &Self::State<P>) -> (P, Self::State<P>) {
        self.stepped(params, grads, state, |mean| {
            self.optimiser.step(params, mean, &state.inner)
        })
    }
}

impl<O: Optimiser> Accumulated<O> {
    /// Adds the gradients, and applies the step to their mean if they are enough.
    #[track_caller]
    fn stepped<P: Tree>(
        &self,
        params: &P,
        grads: &P,
        state: &AccumulatedState<P, O::State<P>>,
        step: impl FnOnce(&P) -> (P, O::State<P>),
    ) -> (P, AccumulatedState<P, O::State<P>>) {
        if self.n == 0 {
            raise(Error::Arguments {
                call: "optim::Accumulated".to_owned(),
                reason: "the number of micro-batches is 0, expected at least 1".to_owned(),
            });
        }
        let sum = tree::add(&state.sum, &grads.map(&mut tree::widened));
        let mean = tree::scale(&sum, 1.0 / self.n as f64);
        let mean = tree::map2(params, &mean, |x, mean| mean.cast(x.dtype()));
        let (next, inner) = step(&mean);
        let count = &state.count + 1;
        let full = count.ge(self.n as i64);
        let state = AccumulatedState {
            sum: choose(&full, &tree::zeros(&sum), &sum),
            inner: choose(&full, &inner, &state.inner),
            count: full.select(0, count),
        };
        (choose(&full, &next, params), state)
    }
}
