//! Adagrad.

use super::Optimiser;
use super::update::{StepArgs, begin_step, zeros_in_state};
use crate::{Tensor, Tree, evaluate, raise::expect};

/// Adagrad: gradients divided by the root of the sum of all squared gradients.
///
/// With `g` the gradient, and `v` equal to `initial` at first:
///
/// ```text
/// v' = v + g^2
/// x' = x - lr * g / (sqrt(v') + eps)
/// ```
///
/// Duchi, Hazan, Singer, "Adaptive subgradient methods for online learning and stochastic
/// optimization", 2011, with a diagonal matrix. `torch.optim.Adagrad` computes the same.
///
/// ```
/// use gradloom::optim::Adagrad;
/// use gradloom::prelude::*;
///
/// let adagrad = Adagrad { lr: 0.5, eps: 0.0, ..Adagrad::default() };
/// let x = Tensor::from([1.0f32]);
/// let (x, state) = adagrad.step(&x, &Tensor::from([3.0f32]), &adagrad.init(&x));
/// let (x, state) = adagrad.step(&x, &Tensor::from([4.0f32]), &state);
/// assert_eq!(state.square.to_vec::<f32>(), [25.0]);
/// assert_eq!(x.to_vec::<f32>(), [1.0 - 0.5 - 0.4]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adagrad {
    /// Learning rate.
    pub lr: f64,
    /// Added to the denominator, so that the step stays finite where the gradient vanishes.
    pub eps: f64,
    /// Sum of squares before the first step.
    pub initial: f64,
}

impl Default for Adagrad {
    /// 0.01, 1e-10, 0.
    fn default() -> Adagrad {
        Adagrad {
            lr: 0.01,
            eps: 1e-10,
            initial: 0.0,
        }
    }
}

/// State of [`Adagrad`] between steps.
#[derive(Clone, Debug, Tree)]
pub struct AdagradState<P> {
    /// Sum of the squared gradients of each parameter.
    pub square: P,
}

impl Optimiser for Adagrad {
    type State<P: Tree> = AdagradState<P>;

    #[track_caller]
    fn init<P: Tree>(&self, params: &P) -> AdagradState<P> {
        let square = zeros_in_state(params).map(&mut |zeros| match zeros.dtype().is_float() {
            true => zeros + self.initial,
            false => zeros.clone(),
        });
        expect(evaluate(&square));
        AdagradState { square }
    }

    fn lr(&self) -> f64 {
        self.lr
    }

    #[track_caller]
    fn step_with<P: Tree>(
        &self,
        lr: &Tensor,
        params: &P,
        grads: &P,
        state: &AdagradState<P>,
    ) -> (P, AdagradState<P>) {
        let args = StepArgs {
            lr,
            params,
            grads,
            state,
        };
        let recording = begin_step!(args, "Adagrad", "eps", [self.eps]);
        let slots = [("sum of squares", &args.state.square)];
        let (params, [square]) = args.update(slots, |x, g, [v]| {
            let v = v + g.square();
            let change = g / (v.sqrt() + self.eps);
            (x - args.lr.cast(x.dtype()) * change, [v])
        });
        recording.end((params, AdagradState { square }))
    }
}
