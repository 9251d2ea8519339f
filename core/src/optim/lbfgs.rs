//! L-BFGS.

use crate::raise::expect;
use crate::tree::{free_leaves, frozen, leaves, share};
use crate::{Result, Tensor, Tree, check, tree};
use gradloom_ir::DType;

/// L-BFGS: steps by an estimate of the inverse Hessian, for losses without noise.
///
/// The direction of a step is the two-loop recursion over the last `history` changes of parameters and
/// gradients. Its length satisfies the strong Wolfe conditions with `c1` and `c2`, if a search finds it within
/// `evaluations` evaluations; the search tries `lr` first, and at most `lr / (sum of |gradient|)` if the history is
/// empty.
///
/// Nocedal and Wright, "Numerical optimization", 2006, algorithms 7.4 and 7.5 for the direction and 3.5 and 3.6 for
/// the search, with the interpolation by cubics of Schmidt's minFunc. `torch.optim.LBFGS` with the line search
/// `strong_wolfe` and `max_iter=1` computes the same.
///
/// A step reads the loss, so it is not part of a traced function. All evaluations are of the same function: take
/// [`Adam`](super::Adam) for mini-batches.
///
/// ```
/// use gradloom::optim::Lbfgs;
/// use gradloom::prelude::*;
///
/// let loss = |x: &Tensor| (x - 1.0).square().sum(..) + (x.i(0) * 3.0 - x.i(1)).square();
/// let (lbfgs, f) = (Lbfgs::default(), value_and_grad(loss));
/// let mut x = Tensor::from([5.0f64, -4.0]);
/// let mut state = lbfgs.init(&x, &f);
/// for _ in 0..10 {
///     (x, state) = lbfgs.step(&x, &state, &f);
/// }
/// assert!(state.gradient.abs().max(..).item::<f64>() < 1e-8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lbfgs {
    /// Length of a step that the search tries first.
    pub lr: f64,
    /// Largest number of changes in the history.
    pub history: usize,
    /// Largest number of evaluations in a search.
    pub evaluations: usize,
    /// Share of the decrease that the slope promises, which a step has to reach.
    pub c1: f64,
    /// Largest slope at the end of a step, as a share of that at its start.
    pub c2: f64,
}

impl Default for Lbfgs {
    /// 1, 10, 25, 1e-4, 0.9.
    fn default() -> Lbfgs {
        Lbfgs {
            lr: 1.0,
            history: 10,
            evaluations: 25,
            c1: 1e-4,
            c2: 0.9,
        }
    }
}

/// State of [`Lbfgs`] between steps. Changes are without frozen leaves.
#[derive(Clone, Debug, Tree)]
pub struct LbfgsState<P> {
    /// Loss of the parameters, a float of rank 0.
    pub value: Tensor,
    /// Its gradient.
    pub gradient: P,
    /// Last changes of the parameters, the oldest first.
    pub steps: Vec<Vec<Tensor>>,
    /// Changes of the gradient in these steps.
    pub slopes: Vec<Vec<Tensor>>,
}

/// A point of a line search: how far it is, its loss, its slope along the line, and its gradient.
struct Point<P> {
    t: f64,
    value: f64,
    slope: f64,
    evaluated: (Tensor, P),
}

/// A search is over once the interval moves no element by more than this.
const SMALLEST_CHANGE: f64 = 1e-9;

impl Lbfgs {
    /// Returns the state before the first step, given the function that [`Lbfgs::step`] takes.
    ///
    /// # Panics
    ///
    /// If a parameter that is not frozen is not a float, the loss is not a single float, the gradient differs from
    /// the parameters in the number, shapes or dtypes of its leaves, or computing one fails.
    #[track_caller]
    pub fn init<P: Tree>(&self, params: &P, f: impl Fn(&P) -> (Tensor, P)) -> LbfgsState<P> {
        let (value, gradient) = expect(evaluated(params, f(params)));
        LbfgsState {
            value,
            gradient,
            steps: Vec::new(),
            slopes: Vec::new(),
        }
    }

    /// Returns the updated parameters and state. `f` returns the loss and its gradient.
    ///
    /// Parameters stay if no direction descends, as at a minimum, or if each loss of the search is larger.
    ///
    /// # Panics
    ///
    /// As for [`Lbfgs::init`].
    #[track_caller]
    pub fn step<P: Tree>(
        &self,
        params: &P,
        state: &LbfgsState<P>,
        f: impl Fn(&P) -> (Tensor, P),
    ) -> (P, LbfgsState<P>) {
        expect(self.try_step(params, state, &f))
    }

    fn try_step<P: Tree>(
        &self,
        params: &P,
        state: &LbfgsState<P>,
        f: &impl Fn(&P) -> (Tensor, P),
    ) -> Result<(P, LbfgsState<P>)> {
        let (value, gradient) = evaluated(params, (state.value.clone(), share(&state.gradient)))?;
        let g = free_leaves(&gradient);
        let direction = self.direction(&g, state)?;
        let scale = match state.steps.is_empty() {
            true => 1.0f64.min(1.0 / number(&magnitudes(&g))?),
            false => 1.0,
        };
        let from = Point {
            t: 0.0,
            value: number(&value)?,
            slope: number(&tree::dot(&g, &direction))?,
            evaluated: (value, gradient),
        };
        let mut history = (state.steps.clone(), state.slopes.clone());
        let moved = |t: f64| along(params, &direction, t);
        let to = match from.slope < 0.0 {
            true => {
                let at = |t: f64| {
                    let x = moved(t);
                    let (value, gradient) = evaluated(&x, f(&x))?;
                    let slope = tree::dot(&free_leaves(&gradient), &direction);
                    Ok(Point {
                        t,
                        value: number(&value)?,
                        slope: number(&slope)?,
                        evaluated: (value, gradient),
                    })
                };
                self.search(from, scale * self.lr, number(&largest(&direction))?, at)?
            }
            false => from,
        };
        let (value, gradient) = to.evaluated;
        if to.t != 0.0 {
            let s = tree::scale(&direction, to.t);
            let y = tree::sub(&free_leaves(&gradient), &g);
            // Curvature of the other sign, or lost in rounding, would spoil the estimate.
            if number(&tree::dot(&y, &s))? > 1e-10 * number(&tree::dot(&y, &y))? {
                if history.0.len() >= self.history.max(1) {
                    history.0.remove(0);
                    history.1.remove(0);
                }
                history.0.push(s);
                history.1.push(y);
            }
        }
        let next = moved(to.t);
        let state = LbfgsState {
            value,
            gradient,
            steps: history.0,
            slopes: history.1,
        };
        crate::evaluate(&state)?;
        crate::evaluate(&next)?;
        Ok((next, state))
    }

    /// Returns minus the estimate of the inverse Hessian times the gradient.
    ///
    /// It is the two-loop recursion.
    fn direction<P>(&self, g: &Vec<Tensor>, state: &LbfgsState<P>) -> Result<Vec<Tensor>> {
        let mut q = tree::scale(g, -1.0);
        let pairs: Vec<_> = state.steps.iter().zip(&state.slopes).collect();
        let mut shares = Vec::new();
        for (s, y) in pairs.iter().rev() {
            let share = tree::dot(*s, &q) / tree::dot(*s, *y);
            q = tree::sub(&q, &tree::scale(*y, &share));
            shares.push(share);
        }
        if let Some((s, y)) = pairs.last() {
            q = tree::scale(&q, &(tree::dot(*s, *y) / tree::dot(*y, *y)));
        }
        for ((s, y), share) in pairs.iter().zip(shares.into_iter().rev()) {
            let change = share - tree::dot(*y, &q) / tree::dot(*s, *y);
            q = tree::add(&q, &tree::scale(*s, &change));
        }
        crate::evaluate(&q)?;
        Ok(q)
    }

    /// Returns a point that satisfies the strong Wolfe conditions, or the best one found.
    ///
    /// `d_max` is the largest magnitude in the direction. A loss that is not a number counts as infinite.
    fn search<P>(
        &self,
        from: Point<P>,
        first: f64,
        d_max: f64,
        at: impl Fn(f64) -> Result<Point<P>>,
    ) -> Result<Point<P>> {
        let (from_value, from_slope) = (from.value, from.slope);
        let is_low = |p: &Point<P>| p.value <= from_value + self.c1 * p.t * from_slope;
        let is_flat = |p: &Point<P>| p.slope.abs() <= -self.c2 * from_slope;

        // Bracket: the second point is too high, or the slope changes its sign.
        let mut n = 1;
        let (mut previous, mut now) = (from, at(first)?);
        while is_low(&now) && (n <= 2 || now.value < previous.value) {
            if is_flat(&now) || n > self.evaluations {
                return Ok(now);
            }
            if now.slope >= 0.0 {
                break;
            }
            let bounds = (now.t + 0.01 * (now.t - previous.t), now.t * 10.0);
            let t = interpolated(&previous, &now, bounds);
            (previous, now) = (now, at(t)?);
            n += 1;
        }

        // Zoom: `low` has the smallest loss so far that satisfies the first condition.
        let (mut low, mut high) = match previous.value <= now.value || now.value.is_nan() {
            true => (previous, now),
            false => (now, previous),
        };
        let mut was_near = false;
        while n < self.evaluations && (high.t - low.t).abs() * d_max >= SMALLEST_CHANGE {
            let (least, most) = (low.t.min(high.t), low.t.max(high.t));
            let mut t = interpolated(&low, &high, (least, most));
            // Two points near an end of the interval in succession do not shorten it enough.
            let margin = 0.1 * (most - least);
            let is_near = (most - t).min(t - least) < margin;
            if is_near && (was_near || t >= most || t <= least) {
                t = match (t - most).abs() < (t - least).abs() {
                    true => most - margin,
                    false => least + margin,
                };
                was_near = false;
            } else {
                was_near = is_near;
            }
            let p = at(t)?;
            n += 1;
            if !is_low(&p) || p.value >= low.value {
                high = p;
                continue;
            }
            if is_flat(&p) {
                return Ok(p);
            }
            if p.slope * (high.t - low.t) >= 0.0 {
                high = low;
            }
            low = p;
        }
        Ok(low)
    }
}

/// Returns the minimum of the cubic with the values and slopes of two points, within bounds.
fn interpolated<P>(a: &Point<P>, b: &Point<P>, (least, most): (f64, f64)) -> f64 {
    let (a, b) = if a.t <= b.t { (a, b) } else { (b, a) };
    let d1 = a.slope + b.slope - 3.0 * (a.value - b.value) / (a.t - b.t);
    let square = d1 * d1 - a.slope * b.slope;
    // Not a number, if a value is not finite.
    if !(square >= 0.0 && square.is_finite()) {
        return (least + most) / 2.0;
    }
    let d2 = square.sqrt();
    let t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2.0 * d2));
    t.max(least).min(most)
}

/// Checks a loss and its gradient, and computes them.
fn evaluated<P: Tree>(params: &P, (value, gradient): (Tensor, P)) -> Result<(Tensor, P)> {
    check::floats(params, "parameters")?;
    check::scalar(&value)?;
    let (xs, gs) = (leaves(params), leaves(&gradient));
    check::beside("gradient", params, "parameters", &gs, check::avals(&xs))?;
    crate::evaluate(&value)?;
    crate::evaluate(&gradient)?;
    Ok((value, gradient))
}

/// Returns the parameters moved along a direction, which has no frozen leaves.
fn along<P: Tree>(params: &P, direction: &[Tensor], t: f64) -> P {
    let (mut frozen, mut direction) = (frozen(params).into_iter(), direction.iter());
    let t = Tensor::scalar(t);
    params.map(&mut |x| match frozen.next() {
        Some(false) => {
            let d = direction.next().expect("a direction for each parameter");
            x + t.cast(x.dtype()) * d
        }
        _ => x.clone(),
    })
}

/// Returns the sum of all magnitudes.
fn magnitudes(x: &[Tensor]) -> Tensor {
    let all: Vec<Tensor> = x.iter().map(Tensor::abs).collect();
    tree::sum(&all)
}

/// Returns the largest magnitude of all elements, or 0 if there are none.
fn largest(x: &[Tensor]) -> Tensor {
    let some = x.iter().filter(|x| x.numel() > 0);
    let largest = some.map(|x| x.abs().max(..).cast(DType::F64));
    largest
        .reduce(|a, b| a.maximum(b))
        .unwrap_or_else(|| Tensor::scalar(0.0))
}

fn number(x: &Tensor) -> Result<f64> {
    x.cast(DType::F64).try_item::<f64>()
}
