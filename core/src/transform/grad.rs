//! Gradients of functions whose result is a single float.

use super::loss::Loss;
use super::outcome::{TransformSite, Uncaught};
use super::vjp::try_vjp;
use crate::transform::Outcome;
use crate::transform::jvp::joint;
use crate::{Result, Tree, check};

/// Returns the gradient of `f`, as a function.
///
/// ```
/// # use gradloom::{Tensor, grad};
/// let f = |x: &Tensor| (x * x).sum(..);
/// assert_eq!(grad(f)(&Tensor::from([1.0f32, 3.0])).to_vec::<f32>(), [2.0, 6.0]);
/// ```
///
/// # Panics
///
/// The returned function panics if the result of `f` is not a single float or a tuple that starts
/// with one, or a leaf of its
/// argument is not a float. If `f` returns `Result`, this is an error instead.
#[track_caller]
pub fn grad<X, R, F>(f: F) -> impl Fn(&X) -> R::Wrap<X>
where
    X: Tree,
    R: Outcome<Tree: Loss>,
    F: Fn(&X) -> R,
{
    let made = TransformSite::by("grad");
    move |x: &X| R::wrap_made(try_value_and_grad(&f, x).map(|(_, g)| g), made)
}

/// Returns the value and the gradient of `f`, as a function.
///
/// ```
/// # use gradloom::{Tensor, value_and_grad};
/// let f = |x: &Tensor| (x * x).sum(..);
/// let (y, ct) = value_and_grad(f)(&Tensor::from([1.0f32, 3.0]));
/// assert_eq!(y.item::<f32>(), 10.0);
/// assert_eq!(ct.to_vec::<f32>(), [2.0, 6.0]);
/// ```
///
/// `f` may return further results beside the loss, which are not differentiated:
///
/// ```
/// # use gradloom::{Tensor, value_and_grad};
/// let f = |x: &Tensor| ((x * x).sum(..), x.relu());
/// let ((y, h), ct) = value_and_grad(f)(&Tensor::from([1.0f32, -3.0]));
/// assert_eq!(y.item::<f32>(), 10.0);
/// assert_eq!(h.to_vec::<f32>(), [1.0, 0.0]);
/// assert_eq!(ct.to_vec::<f32>(), [2.0, -6.0]);
/// ```
///
/// # Panics
///
/// As for [`grad`].
#[track_caller]
pub fn value_and_grad<X, R, F>(f: F) -> impl Fn(&X) -> R::Wrap<(R::Tree, X)>
where
    X: Tree,
    R: Outcome<Tree: Loss>,
    F: Fn(&X) -> R,
{
    let made = TransformSite::by("value_and_grad");
    move |x: &X| R::wrap_made(try_value_and_grad(&f, x), made)
}

pub(super) fn try_value_and_grad<X, R, F>(f: F, x: &X) -> Result<(R::Tree, X)>
where
    X: Tree,
    R: Outcome<Tree: Loss>,
    F: FnOnce(&X) -> R,
{
    let (y, pullback) = try_vjp(f, x)?;
    check::scalar(y.loss())?;
    let gradient = pullback.call_first(y.loss().ones_like())?;
    Ok((y, gradient))
}

/// Returns the product of the Hessian of `f` at `x` with `v`, forward over reverse.
///
/// ```
/// # use gradloom::{Tensor, hvp};
/// let f = |x: &Tensor| (x * x * x).sum(..);
/// let (x, v) = (Tensor::from([1.0f32, 2.0]), Tensor::from([1.0f32, 1.0]));
/// assert_eq!(hvp(f, &x, &v).to_vec::<f32>(), [6.0, 12.0]);
/// ```
///
/// # Panics
///
/// If the result of `f` is not a single float, or `v` does not have the shapes and dtypes of `x`.
/// If `f` returns `Result`, this is an error instead.
#[track_caller]
pub fn hvp<X, R, F>(f: F, x: &X, v: &X) -> R::Wrap<X>
where
    X: Tree,
    R: Outcome<Tree: Loss>,
    F: FnOnce(&X) -> R,
{
    let gradient = |x: &X| Uncaught(try_value_and_grad(f, x).map(|(_, g)| g));
    R::wrap(
        joint(gradient, x)
            .and_then(|map| map.call(v))
            .map(|(_, hv)| hv),
    )
}
