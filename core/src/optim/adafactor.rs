//! Adafactor.

use super::Optimiser;
use super::update::{Slot, StepArgs, begin_step, in_state, zeros_with};
use crate::{Aval, Tensor, Tree};
use gradloom_ir::DType;

/// Adafactor: the mean squares of a matrix are stored as one row and one column, and steps are
/// relative to the parameter.
///
/// With `g` the gradient, `t` the step count, starting at 1, and `rms(x) = sqrt(mean(x^2))`:
///
/// ```text
/// w  = t^-decay
/// r' = r + w * (mean of g^2 over the last axis - r)
/// c' = c + w * (mean of g^2 over the last but one axis - c)
/// v  = r' * c' / mean of r'                                 the mean squares, of rank 1
/// u  = g / max(sqrt(v), eps)
/// a  = max(rms(x), min_scale) * min(lr, 1 / sqrt(t))        the relative step size
/// x' = (1 - lr * weight_decay) * x - a * u / max(1, rms(u) / clip)
/// ```
///
/// A parameter with fewer than two axes has `v' = v + w * (g^2 - v)`. More axes than two are those of
/// a list of matrices. Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory
/// cost", 2018 (arXiv:1804.04235), algorithm 4. The paper adds the square of `eps` to `g^2`; the
/// lower limit is that of `torch.optim.Adafactor`, which computes the same.
///
/// ```
/// use gradloom::optim::Adafactor;
/// use gradloom::prelude::*;
///
/// let adafactor = Adafactor::default();
/// let x = Tensor::ones([200, 300], DType::F32);
/// let state = adafactor.init(&x);
/// assert_eq!((state.row.numel(), state.column.numel()), (200, 300));
/// let (x, _state) = adafactor.step(&x, &x.ones_like(), &state);
/// assert!((x.mean(..).item::<f32>() - 0.99).abs() < 1e-6);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adafactor {
    /// Largest relative step size.
    pub lr: f64,
    /// Exponent of the weight `w` of a gradient in the means.
    pub decay: f64,
    /// Lower limit of the root mean square of gradients.
    pub eps: f64,
    /// Lower limit of the root mean square of a parameter in its step size.
    pub min_scale: f64,
    /// Upper limit of the root mean square of a change, before it is multiplied by the step size.
    pub clip: f64,
    /// Fraction of a parameter that a step with learning rate 1 subtracts.
    pub weight_decay: f64,
}

impl Default for Adafactor {
    /// The values of the paper: 0.01, 0.8, 1e-15, 0.001, 1, and no decay.
    fn default() -> Adafactor {
        Adafactor {
            lr: 1e-2,
            decay: 0.8,
            eps: 1e-15,
            min_scale: 1e-3,
            clip: 1.0,
            weight_decay: 0.0,
        }
    }
}

/// State of [`Adafactor`] between steps.
#[derive(Clone, Debug, Tree)]
pub struct AdafactorState<P> {
    /// Step count, an `i64` of rank 0.
    pub step: Tensor,
    /// Mean squares over the last axis, of length 1 there.
    ///
    /// For fewer than two axes, mean squares of all elements.
    pub row: P,
    /// Mean squares over the last but one axis, of length 1 there.
    ///
    /// For fewer than two axes, a zero of rank 0.
    pub column: P,
}

/// Returns the aval of a row beside a parameter.
fn row(param: &Aval) -> Aval {
    match param.rank() {
        0 | 1 => in_state(param),
        _ => mean_over(param, 1),
    }
}

/// Returns the aval of a column beside a parameter.
fn column(param: &Aval) -> Aval {
    match param.rank() {
        0 | 1 => Aval::batched(
            in_state(param).dtype(),
            param.batch_shape(),
            param.batch_dims(),
        ),
        _ => mean_over(param, 2),
    }
}

/// Returns the aval of the mean over an axis, counted from the last.
fn mean_over(param: &Aval, from_last: usize) -> Aval {
    let mut shape = param.physical_shape().to_vec();
    let axis = shape.len() - from_last;
    shape[axis] = 1;
    Aval::batched(in_state(param).dtype(), &shape, param.batch_dims())
}

impl Optimiser for Adafactor {
    type State<P: Tree> = AdafactorState<P>;

    #[track_caller]
    fn init<P: Tree>(&self, params: &P) -> AdafactorState<P> {
        AdafactorState {
            step: Tensor::scalar(0i64),
            row: zeros_with(params, row),
            column: zeros_with(params, column),
        }
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
        state: &AdafactorState<P>,
    ) -> (P, AdafactorState<P>) {
        let &Adafactor {
            lr: _,
            decay,
            eps,
            min_scale,
            clip,
            weight_decay,
        } = self;
        let args = StepArgs {
            lr,
            params,
            grads,
            state,
        };
        let recording = begin_step!(
            args,
            "Adafactor",
            "decay, eps, min_scale, clip, weight_decay",
            [decay, eps, min_scale, clip, weight_decay]
        );
        recording.end(self.record(&args))
    }
}

impl Adafactor {
    #[track_caller]
    fn record<P: Tree>(&self, args: &StepArgs<'_, P, AdafactorState<P>>) -> (P, AdafactorState<P>) {
        let step = &args.state.step + 1;
        let count = step.cast(DType::F64);
        let weight = count.pow(-self.decay);
        let size = args.lr.cast(DType::F64).minimum(count.rsqrt());
        let least = self.eps * self.eps;
        let rms = |x: &Tensor| x.square().mean(..).sqrt();
        let slots = [
            Slot {
                name: "mean of squares by rows",
                tree: &args.state.row,
                aval: row,
            },
            Slot {
                name: "mean of squares by columns",
                tree: &args.state.column,
                aval: column,
            },
        ];
        let (params, [row, column]) = args.update_slots(slots, |x, g, [r, c]| {
            let dtype = x.dtype();
            let weight = weight.cast(dtype);
            let towards = |v: &Tensor, square: Tensor| v + &weight * (square - v);
            let square = g.square();
            let (v, r, c) = match x.rank() {
                0 | 1 => {
                    let v = towards(r, square);
                    (v.clone(), v, c.clone())
                }
                _ => {
                    let r = towards(r, square.mean_keepdims(-1));
                    let c = towards(c, square.mean_keepdims(-2));
                    let v = &r / r.mean_keepdims(-2).maximum(least) * &c;
                    (v, r, c)
                }
            };
            let change = g * v.maximum(least).rsqrt();
            let size = rms(x).maximum(self.min_scale) * size.cast(dtype);
            let size = size / (rms(&change) / self.clip).maximum(1.0);
            let x = match self.weight_decay {
                0.0 => x.clone(),
                decay => x - args.lr.cast(dtype) * decay * x,
            };
            (x - size * change, [r, c])
        });
        (params, AdafactorState { step, row, column })
    }
}
