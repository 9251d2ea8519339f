//! Exponential moving averages of parameters.

use super::update::{in_state, zeros_in_state};
use crate::raise::expect;
use crate::tree::{frozen, leaves, map2};
use crate::{Aval, Tensor, Tree, check};
use gradloom_ir::DType;

/// An exponential moving average of parameters, whose bias is corrected.
///
/// With `x` the parameters and `t` the number of updates:
///
/// ```text
/// m' = decay * m + (1 - decay) * x          zero at first
/// average = m' / (1 - decay^t)
/// ```
///
/// So the average of constant parameters is their value. Frozen leaves, and leaves that are not floats, are
/// those of the last update. Polyak and Juditsky, "Acceleration of stochastic approximation by averaging",
/// 1992, with the correction of Kingma and Ba (arXiv:1412.6980), section 3. `optax.ema` computes the same.
///
/// ```
/// use gradloom::optim::Average;
/// use gradloom::prelude::*;
///
/// let average = Average { decay: 0.5 };
/// let mut state = average.init(&Tensor::scalar(0.0));
/// for x in [3.0, 6.0] {
///     state = average.update(&Tensor::scalar(x), &state);
/// }
/// // The mean of 3 and 6 with the weights 1 and 2.
/// assert!((average.value(&state).item::<f64>() - 5.0).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Average {
    /// Factor of the average in each update, at least 0 and less than 1.
    pub decay: f64,
}

/// State of [`Average`] between updates.
#[derive(Clone, Debug, Tree)]
pub struct AverageState<P> {
    /// Number of updates, an `i64` of rank 0.
    pub step: Tensor,
    /// Mean without the correction.
    pub mean: P,
}

impl Average {
    /// Returns the state before the first update.
    ///
    /// # Panics
    ///
    /// If memory cannot be allocated.
    #[track_caller]
    pub fn init<P: Tree>(&self, params: &P) -> AverageState<P> {
        let zeros = zeros_in_state(params);
        AverageState {
            step: Tensor::scalar(0i64),
            mean: averaged(params, &zeros, |_, zero| zero.clone()),
        }
    }

    /// Returns the state after an update by parameters.
    ///
    /// # Panics
    ///
    /// If the parameters and the state differ in the number, paths, shapes or dtypes of their leaves.
    #[track_caller]
    pub fn update<P: Tree>(&self, params: &P, state: &AverageState<P>) -> AverageState<P> {
        let means = leaves(&state.mean);
        let xs = leaves(params).into_iter().zip(frozen(params));
        let expected = xs.map(|(x, frozen)| match frozen {
            true => x.aval().clone(),
            false => in_state(x.aval()),
        });
        let expected: Vec<Aval> = expected.collect();
        let expected = expected.iter().map(Some);
        expect(check::beside(
            "average",
            params,
            "parameters",
            &means,
            expected,
        ));
        AverageState {
            step: &state.step + 1,
            mean: averaged(params, &state.mean, |x, m| {
                m * self.decay + x.cast(m.dtype()) * (1.0 - self.decay)
            }),
        }
    }

    /// Returns the average. It is NaN before the first update. It has the dtypes of the state: `f32` for parameters of 16
    /// bits.
    #[track_caller]
    pub fn value<P: Tree>(&self, state: &AverageState<P>) -> P {
        // As for Adam, `1 - decay^t` would lose digits.
        let correction = -(state.step.cast(DType::F64) * self.decay.ln()).expm1();
        averaged(&state.mean, &state.mean, |m, _| {
            m / correction.cast(m.dtype())
        })
    }
}

/// Returns the tree of `f` for floats that are not frozen. Other leaves are those of `left`.
#[track_caller]
fn averaged<P: Tree>(left: &P, right: &P, f: impl Fn(&Tensor, &Tensor) -> Tensor) -> P {
    let mut frozen = frozen(left).into_iter();
    map2(left, right, |x, y| match frozen.next() {
        Some(false) if x.dtype().is_float() => f(x, y),
        _ => x.clone(),
    })
}
