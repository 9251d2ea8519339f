//! Jacobians and Hessians: derivatives along all basis vectors, as lanes.

use super::Outcome;
use super::grad::try_value_and_grad;
use super::linear::try_linearize;
use super::outcome::{TransformSite, Uncaught};
use super::vjp::try_vjp;
use super::vmap::vmap;
use crate::raise::catch;
use crate::{DType, Result, Tensor, check};

/// Returns the Jacobian of `f` in forward mode, as a function.
///
/// Its axes are those of the result, then those of the argument. It is cheaper than [`jacrev`] if
/// the argument has fewer elements than the result.
///
/// ```
/// # use gradloom::{Tensor, jacfwd};
/// let j = jacfwd(|t: &Tensor| Tensor::stack(&[t.square(), t * 3.0], 0))(&Tensor::from(2.0f32));
/// assert_eq!(j.to_vec::<f32>(), [4.0, 3.0]);
/// ```
///
/// # Panics
///
/// The returned function panics if its argument or the result of `f` is not a float. If `f` returns
/// `Result`, this is an error instead.
#[track_caller]
pub fn jacfwd<R, F>(f: F) -> impl Fn(&Tensor) -> R::Wrap<Tensor>
where
    R: Outcome<Tree = Tensor>,
    F: Fn(&Tensor) -> R,
{
    let made = TransformSite::by("jacfwd");
    move |x: &Tensor| R::wrap_made(try_jacfwd(&f, x), made)
}

/// Returns the Jacobian of `f` in reverse mode, as a function.
///
/// Its axes are those of the result, then those of the argument.
///
/// ```
/// # use gradloom::{Tensor, jacrev};
/// let j = jacrev(|x: &Tensor| x * x)(&Tensor::from([1.0f32, 2.0]));
/// assert_eq!(j.shape(), [2, 2]);
/// assert_eq!(j.to_vec::<f32>(), [2.0, 0.0, 0.0, 4.0]);
/// ```
///
/// # Panics
///
/// As for [`jacfwd`].
#[track_caller]
pub fn jacrev<R, F>(f: F) -> impl Fn(&Tensor) -> R::Wrap<Tensor>
where
    R: Outcome<Tree = Tensor>,
    F: Fn(&Tensor) -> R,
{
    let made = TransformSite::by("jacrev");
    move |x: &Tensor| R::wrap_made(try_jacrev(&f, x), made)
}

/// Returns the Hessian of a function whose result is a single float, forward over reverse.
///
/// ```
/// # use gradloom::{Tensor, hessian};
/// let f = |x: &Tensor| (x * x * x).sum(..);
/// let h = hessian(f)(&Tensor::from([1.0f32, 2.0]));
/// assert_eq!(h.to_vec::<f32>(), [6.0, 0.0, 0.0, 12.0]);
/// ```
///
/// # Panics
///
/// As for [`grad`](super::grad).
#[track_caller]
pub fn hessian<R, F>(f: F) -> impl Fn(&Tensor) -> R::Wrap<Tensor>
where
    R: Outcome<Tree = Tensor>,
    F: Fn(&Tensor) -> R,
{
    let made = TransformSite::by("hessian");
    move |x: &Tensor| {
        let gradient = |x: &Tensor| Uncaught(try_value_and_grad(&f, x).map(|(_, g)| g));
        R::wrap_made(try_jacfwd(&gradient, x), made)
    }
}

fn try_jacfwd<R: Outcome<Tree = Tensor>>(f: &impl Fn(&Tensor) -> R, x: &Tensor) -> Result<Tensor> {
    let (y, map) = try_linearize(f, x)?;
    check::floats(&y, "result")?;
    let columns = vmap(|e: &Tensor| map.try_call(e))(&basis(x))?;
    // The columns are along the first axis.
    catch(|| {
        Ok(columns
            .moveaxis(0, -1)
            .reshape([y.shape(), x.shape()].concat()))
    })
}

fn try_jacrev<R: Outcome<Tree = Tensor>>(f: &impl Fn(&Tensor) -> R, x: &Tensor) -> Result<Tensor> {
    let (y, pullback) = try_vjp(f, x)?;
    check::floats(&y, "result")?;
    let rows = vmap(|e: &Tensor| pullback.try_call(e))(&basis(&y))?;
    catch(|| Ok(rows.reshape([y.shape(), x.shape()].concat())))
}

/// Returns the basis vectors of the space of `x`, along a first axis.
fn basis(x: &Tensor) -> Tensor {
    let n = x.numel();
    let labels = Tensor::arange(n, DType::I64);
    labels
        .one_hot(n, x.dtype())
        .reshape([&[n], x.shape()].concat())
}
