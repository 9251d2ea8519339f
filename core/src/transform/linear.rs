//! Linear maps: the derivative at a point as a function, and the transpose of a linear function.

use super::trace::{self, Trace};
use super::vjp::{Pullback, pullback_of};
use super::{Outcome, check_forward};
use crate::error::ControlFault;
use crate::graph::cut_program::Derivation;
use crate::raise::expect;
use crate::tensor::replay::{Bound, replay_bound, replay_known};
use crate::tree::{free_leaves, frozen, leaves, share, with_physical};
use crate::{Result, Tensor, Tree, check};
use gradloom_ir::{Program, ad};
use std::sync::Arc;

/// Returns the value of `f` at `x`, and its derivative there: the linear map from tangents of `x` to
/// tangents of the value.
///
/// `f` runs once. Each call of the map costs only what depends on the tangent, so many directions at one
/// point are cheaper than by [`jvp`](super::jvp()). If `f` has loops or conditionals that are ops, such as
/// [`scan`](crate::scan()), each call runs them again.
///
/// ```
/// # use gradloom::{Tensor, linearize};
/// let x = Tensor::from([1.0f32, 2.0]);
/// let (y, df) = linearize(|x: &Tensor| x * x, &x);
/// assert_eq!(y.to_vec::<f32>(), [1.0, 4.0]);
/// assert_eq!(df.call(&Tensor::from([1.0f32, 0.0])).to_vec::<f32>(), [2.0, 0.0]);
/// assert_eq!(df.call(&Tensor::from([0.0f32, 1.0])).to_vec::<f32>(), [0.0, 4.0]);
/// ```
///
/// # Panics
///
/// If a leaf of `x` is not a float, or `f` has a rule for reverse mode only. If `f` returns `Result`, these
/// are errors instead.
#[track_caller]
#[expect(
    clippy::type_complexity,
    reason = "a pair, wrapped as the closure wraps its result"
)]
pub fn linearize<X, R, F>(f: F, x: &X) -> R::Wrap<(R::Tree, Pushforward<X, R::Tree>)>
where
    X: Tree,
    R: Outcome,
    F: FnOnce(&X) -> R,
{
    R::wrap(try_linearize(f, x))
}

#[expect(clippy::type_complexity, reason = "a pair")]
fn try_linearize<X, R, F>(f: F, x: &X) -> Result<(R::Tree, Pushforward<X, R::Tree>)>
where
    X: Tree,
    R: Outcome,
    F: FnOnce(&X) -> R,
{
    linearized_at(trace::trace(f, x)?, x)
}

/// Returns the value and the derivative of a traced function.
pub(super) fn linearized_at<X: Tree, Y: Tree>(
    trace: Trace<Y>,
    x: &X,
) -> Result<(Y, Pushforward<X, Y>)> {
    check_forward(&trace.program)?;
    let program = &trace.program;
    let linearized = program.derived(Derivation::Linearized, || {
        Ok(ad::linearize(program, program.wrt()))
    })?;
    let args = trace::args(&free_leaves(x), &trace.captured);
    let outs = replay_known(&linearized.primal, args, &trace.known)?;
    let (outs, residuals) = outs.split_at(linearized.n_outs);
    let outs: Vec<Tensor> = outs.iter().map(|y| y.tensor().clone()).collect();
    let y = with_physical(&trace.y, &outs);
    let residuals = residuals.iter().zip(&linearized.shape_only);
    let map = Pushforward {
        residuals: residuals.map(|(r, only)| r.kept(*only)).collect(),
        linearized,
        x: share(x),
        y: share(&y),
    };
    Ok((y, map))
}

/// The derivative of a function at a point: the linear map from tangents of its argument to tangents of its
/// result.
///
/// It may be called many times. It keeps alive what the derivative depends on until it is dropped.
///
/// ```
/// # use gradloom::{Pushforward, Tensor, linearize};
/// let x = Tensor::from([0.0f32]);
/// let (_, df): (Tensor, Pushforward<Tensor, Tensor>) = linearize(|x: &Tensor| x.sin(), &x);
/// assert_eq!(df.call(&Tensor::from([3.0f32])).to_vec::<f32>(), [3.0]);
/// ```
#[derive(Debug)]
pub struct Pushforward<X, Y> {
    linearized: Arc<ad::Linearized>,
    residuals: Vec<Bound>,
    x: X,
    y: Y,
}

impl<X: Tree, Y: Tree> Pushforward<X, Y> {
    /// Returns the tangent of the result, given the tangent of the argument.
    ///
    /// # Panics
    ///
    /// If a leaf of `dx` differs in shape or dtype from that of the argument.
    #[track_caller]
    pub fn call(&self, dx: &X) -> Y {
        expect(self.try_call(dx))
    }

    /// Returns the tangent of the result, given the tangent of the argument.
    ///
    /// # Errors
    ///
    /// If a leaf of `dx` differs in shape or dtype from that of the argument.
    pub fn try_call(&self, dx: &X) -> Result<Y> {
        let (x, dx) = (leaves(&self.x), leaves(dx));
        check::beside("tangent", &self.x, "argument", &dx, check::avals(&x))?;
        let dx = dx.into_iter().zip(frozen(&self.x));
        let dx = dx
            .filter(|(_, frozen)| !frozen)
            .map(|(dx, _)| Bound::Tensor(dx));
        let args: Vec<Bound> = self.residuals.iter().cloned().chain(dx).collect();
        let mut found = replay_bound(&self.linearized.tangent, &args)?.into_iter();
        let mut active = self.linearized.active.iter();
        Ok(self.y.map(&mut |y| match active.next() {
            Some(true) => {
                let tangent = found.next();
                let tangent =
                    tangent.expect("the program returns a tangent for each active result");
                tangent.tensor().with_batch_dims(y.batch_dims())
            }
            _ => y.zeros_like(),
        }))
    }

    /// Returns the program that a call runs: `residuals..., tangents... -> tangents...`.
    pub fn program(&self) -> &Program {
        &self.linearized.tangent
    }

    /// Returns the size of the residuals in bytes, including those that are also arguments or results.
    pub fn bytes(&self) -> usize {
        self.residuals.iter().map(Bound::bytes).sum()
    }
}

/// Returns the transpose of a linear function `f`: the function of `ct` whose result `ct_x` satisfies
/// `<ct, f(dx)> = <ct_x, dx>` for all `dx`.
///
/// Only dtypes and shapes of `x` are read. What `f` adds that does not depend on `x` is left out.
///
/// ```
/// # use gradloom::{Tensor, linear_transpose};
/// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// let transposed = linear_transpose(|x: &Tensor| a.matmul(x), &Tensor::from([0.0f32, 0.0]));
/// assert_eq!(transposed.call(&Tensor::from([1.0f32, 0.0])).to_vec::<f32>(), [1.0, 2.0]);
/// ```
///
/// # Panics
///
/// If `f` is not linear, or a leaf of `x` is not a float. If `f` returns `Result`, these are errors instead.
#[track_caller]
pub fn linear_transpose<X, R, F>(f: F, x: &X) -> R::Wrap<Pullback<X, R::Tree>>
where
    X: Tree,
    R: Outcome,
    F: FnOnce(&X) -> R,
{
    let run = || {
        let trace: Trace<R::Tree> = trace::trace(f, x)?;
        if let Some(op) = ad::nonlinear(&trace.program, trace.program.wrt()) {
            return Err(ControlFault::NotLinear { op: op.called() }.into_error("linear_transpose"));
        }
        Ok(pullback_of(trace, x)?.1)
    };
    R::wrap(run())
}
