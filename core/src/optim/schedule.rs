//! Learning rates as functions of the step number.

use super::Optimiser;
use crate::{Tensor, Tree};
use gradloom_ir::DType;
use std::f64::consts::PI;

/// A function from the number of a step to a learning rate.
///
/// The number is data, so all steps share a plan. [`Schedule::then`] joins schedules:
///
/// ```
/// use gradloom::optim::Schedule;
/// use gradloom::prelude::*;
///
/// let warm_up = Schedule::linear(0.0, 0.1, 10);
/// let schedule = warm_up.then(10, Schedule::cosine(0.1, 0.0, 90));
/// let rates = [0, 5, 10, 55, 100, 200].map(|step| schedule.at(step).item::<f64>());
/// for (rate, expected) in rates.into_iter().zip([0.0, 0.05, 0.1, 0.05, 0.0, 0.0]) {
///     assert!((rate - expected).abs() < 1e-15);
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Curves with the steps at which they begin, in order. The first begins at step 0.
    pieces: Vec<(i64, Curve)>,
}

/// A learning rate as a function of the number of steps since its beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Curve {
    Exponential { from: f64, factor: f64 },
    Linear { from: f64, to: f64, steps: f64 },
    Cosine { from: f64, to: f64, steps: f64 },
}

impl Curve {
    /// Returns the rate after `t` steps, a tensor of `f64` that is not negative.
    fn at(self, t: &Tensor) -> Tensor {
        // The share of the curve that is done. A curve without steps is done.
        let done = |steps: f64| match steps {
            0.0 => t.ones_like(),
            _ => (t / steps).minimum(1.0),
        };
        match self {
            Curve::Exponential { from, factor: 1.0 } => t.ones_like() * from,
            Curve::Exponential { from, factor } => (t.zeros_like() + factor).pow(t) * from,
            Curve::Linear { from, to, steps } => {
                let done = done(steps);
                (1.0 - &done) * from + done * to
            }
            Curve::Cosine { from, to, steps } => {
                let c = (done(steps) * PI).cos();
                (1.0 + &c) * (from / 2.0) + (1.0 - c) * (to / 2.0)
            }
        }
    }
}

impl Schedule {
    fn new(curve: Curve) -> Schedule {
        Schedule {
            pieces: vec![(0, curve)],
        }
    }

    /// Returns the schedule whose rate is always `rate`.
    ///
    /// ```
    /// use gradloom::optim::Schedule;
    ///
    /// // Divides the rate by 10 after 30 steps, and again after 60.
    /// let schedule = Schedule::constant(0.1)
    ///     .then(30, Schedule::constant(0.01))
    ///     .then(60, Schedule::constant(0.001));
    /// assert_eq!([29, 30, 60].map(|step| schedule.at(step).item::<f64>()), [0.1, 0.01, 0.001]);
    /// ```
    pub fn constant(rate: f64) -> Schedule {
        Schedule::exponential(rate, 1.0)
    }

    /// Returns the schedule `from * factor^t` at step `t`.
    ///
    /// `torch.optim.lr_scheduler.ExponentialLR` computes the same.
    ///
    /// ```
    /// use gradloom::optim::Schedule;
    ///
    /// assert_eq!(Schedule::exponential(8.0, 0.5).at(3).item::<f64>(), 1.0);
    /// ```
    pub fn exponential(from: f64, factor: f64) -> Schedule {
        Schedule::new(Curve::Exponential { from, factor })
    }

    /// Returns the schedule on a line from `from` to `to`.
    ///
    /// It is `to` at step `steps` and after it. `optax.linear_schedule` computes the same.
    ///
    /// ```
    /// use gradloom::optim::Schedule;
    ///
    /// let warm_up = Schedule::linear(0.0, 1.0, 4);
    /// assert_eq!([0, 1, 4, 9].map(|step| warm_up.at(step).item::<f64>()), [0.0, 0.25, 1.0, 1.0]);
    /// ```
    pub fn linear(from: f64, to: f64, steps: usize) -> Schedule {
        let steps = steps as f64;
        Schedule::new(Curve::Linear { from, to, steps })
    }

    /// Returns the schedule on half a cosine from `from` to `to`.
    ///
    /// It is `to` at step `steps` and after it:
    ///
    /// ```text
    /// to + (from - to) * (1 + cos(pi * min(t / steps, 1))) / 2
    /// ```
    ///
    /// Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017
    /// (arXiv:1608.03983), equation 5. Up to step `steps`, it is
    /// `torch.optim.lr_scheduler.CosineAnnealingLR`.
    ///
    /// ```
    /// use gradloom::optim::Schedule;
    ///
    /// let rate = Schedule::cosine(1.0, 0.0, 100).at(50).item::<f64>();
    /// assert!((rate - 0.5).abs() < 1e-15);
    /// ```
    pub fn cosine(from: f64, to: f64, steps: usize) -> Schedule {
        let steps = steps as f64;
        Schedule::new(Curve::Cosine { from, to, steps })
    }

    /// Returns one cycle of `steps` steps: half a cosine up to `peak`, and one down.
    ///
    /// It starts from `peak / 25`, and reaches `peak` after 3 tenths of the steps and `peak / 250000` at
    /// the last. Smith and Topin, "Super-convergence", 2018 (arXiv:1708.07120), with the numbers of
    /// `torch.optim.lr_scheduler.OneCycleLR`, if 3 tenths of the steps are a whole number. Join cosines
    /// for other numbers.
    ///
    /// ```
    /// use gradloom::optim::Schedule;
    ///
    /// let cycle = Schedule::one_cycle(1.0, 100);
    /// assert_eq!([0, 29].map(|step| cycle.at(step).item::<f64>()), [0.04, 1.0]);
    /// assert!((cycle.at(99).item::<f64>() - 4e-6).abs() < 1e-15);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are fewer than 4 steps.
    #[track_caller]
    pub fn one_cycle(peak: f64, steps: usize) -> Schedule {
        assert!(steps >= 4, "a cycle of {steps} steps, expected at least 4");
        let (first, last) = (peak / 25.0, peak / 25.0 / 1e4);
        let up = (steps * 3 / 10).max(2) - 1;
        Schedule::cosine(first, peak, up).then(up, Schedule::cosine(peak, last, steps - 1 - up))
    }

    /// Returns this schedule up to step `at`, and then `next`, which counts its steps from there.
    ///
    /// What this schedule would do after step `at` does not count.
    #[must_use]
    pub fn then(mut self, at: usize, next: Schedule) -> Schedule {
        let at = at as i64;
        self.pieces.retain(|(start, _)| *start < at);
        let moved = next.pieces.into_iter();
        self.pieces
            .extend(moved.map(|(start, curve)| (at + start, curve)));
        self
    }

    /// Returns the learning rate at a step, an `f64` of rank 0.
    ///
    /// The step is a number, or a tensor of integers: the result then has the shape of the tensor. A negative
    /// step counts as step 0.
    pub fn at(&self, step: impl StepNumber) -> Tensor {
        let step = step.into_step().maximum(0);
        let mut pieces = self.pieces.iter().map(|(start, curve)| {
            let t = (&step - *start).maximum(0).cast(DType::F64);
            (*start, curve.at(&t))
        });
        let (_, first) = pieces.next().expect("a schedule has a piece");
        pieces.fold(first, |rate, (start, next)| {
            step.ge(start).select(next, rate)
        })
    }
}

/// Number of a step: an integer, or a tensor of them.
pub trait StepNumber {
    /// Returns the number as a tensor of `i64`.
    fn into_step(self) -> Tensor;
}

impl StepNumber for i64 {
    fn into_step(self) -> Tensor {
        Tensor::scalar(self)
    }
}

impl StepNumber for i32 {
    fn into_step(self) -> Tensor {
        i64::from(self).into_step()
    }
}

impl StepNumber for usize {
    fn into_step(self) -> Tensor {
        (self as i64).into_step()
    }
}

impl StepNumber for &Tensor {
    fn into_step(self) -> Tensor {
        self.cast(DType::I64)
    }
}

/// An optimiser whose learning rate follows a [`Schedule`].
///
/// [`Optimiser::scheduled`] makes it. `step` takes the rate from the schedule, and `step_with` the one that
/// it is given; both count the step.
///
/// ```
/// use gradloom::optim::{Schedule, Sgd};
/// use gradloom::prelude::*;
///
/// let sgd = Sgd::default().scheduled(Schedule::exponential(1.0, 0.5));
/// let (mut x, g) = (Tensor::scalar(0.0), Tensor::scalar(-1.0));
/// let mut state = sgd.init(&x);
/// for _ in 0..3 {
///     (x, state) = sgd.step(&x, &g, &state);
/// }
/// assert_eq!(x.item::<f64>(), 1.0 + 0.5 + 0.25);
/// assert_eq!(state.step.item::<i64>(), 3);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Scheduled<O> {
    /// Optimiser that takes the steps.
    pub optimiser: O,
    /// Its learning rate.
    pub schedule: Schedule,
}

/// State of [`Scheduled`] between steps.
#[derive(Clone, Debug, Tree)]
pub struct ScheduledState<S> {
    /// Number of steps before, an `i64` of rank 0.
    pub step: Tensor,
    /// State of the optimiser.
    pub inner: S,
}

impl<O: Optimiser> Optimiser for Scheduled<O> {
    type State<P: Tree> = ScheduledState<O::State<P>>;

    #[track_caller]
    fn init<P: Tree>(&self, params: &P) -> Self::State<P> {
        ScheduledState {
            step: Tensor::scalar(0i64),
            inner: self.optimiser.init(params),
        }
    }

    /// Returns the learning rate of the optimiser, which `step` does not use.
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
        let (params, inner) = self.optimiser.step_with(lr, params, grads, &state.inner);
        let step = &state.step + 1;
        (params, ScheduledState { step, inner })
    }

    #[track_caller]
    fn step<P: Tree>(&self, params: &P, grads: &P, state: &Self::State<P>) -> (P, Self::State<P>) {
        self.step_with(&self.schedule.at(&state.step), params, grads, state)
    }
}
