//! Checks of gradients element by element.

use super::compare::{Failure, epsilon, numbers};
use super::laws::{in_f64, is_single, takes};
use super::{Source, laws};
use crate::tree::{frozen, leaves, with_leaves};
use crate::{DType, Outcome, Tensor, Tree, check, vjp};
use std::fmt;

/// The element at which a derivative and its difference quotient are furthest apart: see [`gradcheck_elements`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WorstElement {
    /// Order of the derivative.
    pub order: usize,
    /// Path of the leaf of the argument.
    pub path: String,
    /// Index of the element, in row-major order.
    pub element: usize,
    /// The derivative in reverse mode.
    pub derivative: f64,
    /// The difference quotient.
    pub differences: f64,
    /// Largest magnitude of the derivatives of the leaf, and at least that of rounding. The tolerance is relative to it.
    pub scale: f64,
}

impl WorstElement {
    /// Returns the distance of the two numbers, relative to the scale.
    pub fn error(&self) -> f64 {
        (self.derivative - self.differences).abs() / self.scale
    }
}

impl fmt::Display for WorstElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WorstElement {
            order,
            path,
            element,
            derivative,
            differences,
            ..
        } = self;
        write!(
            f,
            "the derivative of order {order} at element {element} of `{path}` is {derivative:?}, and differences give {differences:?}"
        )
    }
}

/// Checks each element of the gradient of a closure by finite differences, for derivatives up to `order`, 1 or 2.
///
/// Only reverse mode is used, so custom functions need no `jvp`. A result of any shape is multiplied by random numbers
/// and summed. Order 2 checks the gradient of the gradient, multiplied by random numbers, in the same way. Differences
/// are central and of 4th order; each element has to agree for one of several steps, within 1e-7 in `f64` and 4e-3 in
/// `f32`, relative to the largest element of its leaf. A derivative that is smaller than the rounding of the result
/// is not told from 0. `f32` arguments are converted to `f64` if the closure accepts those.
///
/// [`gradcheck`](super::gradcheck) is faster: it checks both modes in random directions.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::testing::gradcheck_elements;
///
/// let x = Tensor::from([0.5f64, 2.0, 0.0]);
/// let worst = gradcheck_elements(|x: &Tensor| x.sin() * x, &x, 2)?;
/// assert!(worst.error() < 1e-7, "{worst}");
/// // At a kink the two sides have no common slope.
/// let error = gradcheck_elements(|x: &Tensor| x.relu(), &x, 1).unwrap_err();
/// assert!(error.to_string().contains("element 2 of `argument`"), "{error}");
/// # Ok::<(), gradloom::testing::Failure>(())
/// ```
///
/// # Errors
///
/// The worst element with both numbers, if it is outside of the tolerance. The error of the closure, if it fails. An
/// error that names a leaf that is neither a float nor frozen.
pub fn gradcheck_elements<X: Tree, R: Outcome>(
    f: impl Fn(&X) -> R,
    x: &X,
    order: usize,
) -> Result<WorstElement, Failure> {
    if !(1..=2).contains(&order) {
        return Err(Failure::new(format!(
            "the order is {order}, expected 1 or 2"
        )));
    }
    check::floats(x, "argument")?;
    // The first run reports errors of the closure itself.
    R::run(|| f(x))?;
    let run = |x: &X| laws::unwrap(R::run(|| f(x)));
    let wide = in_f64(x);
    let x = match is_single(&leaves(x)) && takes(run, &wide) {
        true => &wide,
        false => x,
    };
    let mut source = Source::new(4);
    let first = weighted(run, source.like(&run(x)));
    let mut worst = check_each(&first, x, 1)?;
    if order == 2 {
        let slopes = |x: &X| gradient(&first, x);
        let second = weighted(slopes, source.like(x));
        let found = check_each(&second, x, 2)?;
        if found.error() >= worst.error() {
            worst = found;
        }
    }
    Ok(worst)
}

/// Returns the sum of the results of `f`, each multiplied by a number.
fn weighted<X: Tree, Y: Tree>(f: impl Fn(&X) -> Y, weights: Y) -> impl Fn(&X) -> Tensor {
    let weights = leaves(&weights);
    move |x: &X| {
        let y = leaves(&f(x));
        let floats = y.iter().zip(&weights).filter(|(y, _)| y.dtype().is_float());
        let terms = floats.map(|(y, weight)| (y * weight).sum(..).cast(DType::F64));
        let total = terms.reduce(|a, b| a + b);
        total.unwrap_or_else(|| Tensor::from(0.0f64))
    }
}

fn gradient<X: Tree>(f: impl Fn(&X) -> Tensor, x: &X) -> X {
    let (y, pullback) = vjp(f, x);
    pullback.call(&y.ones_like())
}

/// Compares each element of the gradient of a number with differences, and returns the worst one.
fn check_each<X: Tree>(
    f: impl Fn(&X) -> Tensor,
    x: &X,
    order: usize,
) -> Result<WorstElement, Failure> {
    let mut paths = Vec::new();
    x.paths("argument", &mut paths);
    let gradient = leaves(&gradient(&f, x));
    let gradient = gradient
        .iter()
        .map(numbers)
        .collect::<Result<Vec<_>, _>>()?;
    let value = f(x).try_item::<f64>()?.abs();
    let (all, frozen) = (leaves(x), frozen(x));
    let steps = laws::steps_of(&all);
    // Rounding of the result in the quotient of the largest step, in which the tolerance has to hold.
    let noise = 10.0 * epsilon(&all) / (steps.sizes[0] * steps.tolerance);
    let mut worst: Option<WorstElement> = None;
    for (leaf, (derivatives, path)) in gradient.iter().zip(&paths).enumerate() {
        if frozen[leaf] || !all[leaf].dtype().is_float() {
            continue;
        }
        let values = numbers(&all[leaf])?;
        let finite = derivatives.iter().filter(|x| x.is_finite());
        let largest = finite.fold(noise * value, |most, x| x.abs().max(most));
        for (element, derivative) in derivatives.iter().enumerate() {
            let mut nearest: Option<WorstElement> = None;
            for h in steps.sizes {
                let at = |t: f64| -> Result<f64, Failure> {
                    let mut moved = values.clone();
                    moved[element] += t;
                    let mut leaves = all.clone();
                    let moved = Tensor::from_vec(moved, all[leaf].shape());
                    leaves[leaf] = moved.cast(all[leaf].dtype());
                    Ok(f(&with_leaves(x, &leaves)).try_item::<f64>()?)
                };
                let (a, b) = (at(2.0 * h)? - at(-2.0 * h)?, at(h)? - at(-h)?);
                let differences = (8.0 * b - a) / (12.0 * h);
                let found = WorstElement {
                    order,
                    path: path.clone(),
                    element,
                    derivative: *derivative,
                    differences,
                    scale: [largest, differences.abs(), f64::MIN_POSITIVE]
                        .into_iter()
                        .filter(|x| x.is_finite())
                        .fold(0.0, f64::max),
                };
                if nearest
                    .as_ref()
                    .is_none_or(|best| found.error().total_cmp(&best.error()).is_lt())
                {
                    nearest = Some(found);
                }
                if nearest
                    .as_ref()
                    .is_some_and(|best| best.error() <= steps.tolerance)
                {
                    break;
                }
            }
            let Some(found) = nearest else { continue };
            let is_worse = |worst: &WorstElement| found.error().total_cmp(&worst.error()).is_gt();
            if worst.as_ref().is_none_or(is_worse) {
                worst = Some(found);
            }
        }
    }
    let worst =
        worst.ok_or_else(|| Failure::new("the argument has no floats that are not frozen"))?;
    match worst.error() <= steps.tolerance {
        true => Ok(worst),
        false => Err(Failure::new(format!(
            "{worst}; they have to be equal within {:.1e}",
            steps.tolerance * worst.scale
        ))),
    }
}
