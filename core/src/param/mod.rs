//! Parameters with a slot for their gradients, and backward passes that fill it.
//!
//! This is the style of PyTorch. Functions such as [`grad`](crate::grad) and the companions of traced functions return
//! gradients instead. They are faster, because their calls are planned once; see the book.

mod backward;
mod grad_fn;

pub use backward::Backward;
pub use grad_fn::GradFn;

use crate::error::BackwardFault;
use crate::graph::recording;
use crate::graph::run;
use crate::graph::value::{NEVER, Shared};
use crate::raise::expect;
use crate::tensor::record::{MAX_PENDING_OPS, param_leaf, record_elementwise, record_one};
use crate::{Error, Result, Tensor};
use gradloom_ir::sharding::ShardingSpec;
use gradloom_ir::{self as ir, Code, Fault, HostCode, Op, Static};
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// A float tensor that is learned, with a slot for its gradient.
///
/// A clone is another handle to the same slot. [`Param::tensor`] is the value for computations: what is computed of it
/// keeps the path back to the parameter, which [`Tensor::backward`] follows.
///
/// ```
/// use gradloom::{Param, Tensor, no_grad};
///
/// let w = Param::new(Tensor::from([1.0f32, 2.0]))?;
/// for _ in 0..100 {
///     let loss = (w.tensor() - 3.0).square().sum(..);
///     w.zero_grad();
///     loss.backward()?;
///     let step = w.grad().unwrap() * 0.1;
///     w.set(no_grad(|| w.tensor() - step))?;
/// }
/// assert!((w.tensor().to_vec::<f32>()[0] - 3.0).abs() < 1e-4);
/// # Ok::<(), gradloom::Error>(())
/// ```
#[derive(Clone)]
pub struct Param(Arc<Slot>);

struct Slot {
    id: u64,
    state: Mutex<State>,
    hooks: Mutex<Vec<(u64, Arc<Hook>)>>,
}

/// A function that sees a gradient and may replace it.
type Hook = dyn Fn(&Tensor) -> Option<Tensor> + Send + Sync;

struct State {
    value: Tensor,
    /// The value as it is passed to computations, once it has been.
    leaf: Option<Tensor>,
    grad: Option<Tensor>,
}

/// The code of the op between a parameter and what is computed of it.
struct LeafCode {
    id: u64,
    // The slot holds the value of the op, so the op must not hold the slot.
    slot: Weak<Slot>,
    /// How the value is placed on the devices of a mesh.
    spec: Option<ShardingSpec>,
}

impl HostCode for LeafCode {
    fn name(&self) -> String {
        format!("param#{}", self.id)
    }

    fn key(&self) -> Option<u64> {
        None
    }

    fn infer(&self, _: &[&ir::Aval]) -> std::result::Result<Vec<ir::Aval>, Fault> {
        unreachable!("the rule of the op returns the aval of its operand")
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl LeafCode {
    fn of(statics: &[Static]) -> Option<&LeafCode> {
        statics.first()?.code()?.downcast()
    }
}

/// Returns the spec that an op gave a tensor, or the parameter that it stands for.
pub(crate) fn spec_of(x: &Tensor) -> Option<&ShardingSpec> {
    let statics = &x.0.more.as_ref()?.statics[..];
    let of_op = statics.first().and_then(Static::sharding);
    of_op.or_else(|| LeafCode::of(statics)?.spec.as_ref())
}

impl Param {
    /// Returns a parameter with this value and no gradient.
    ///
    /// ```
    /// # use gradloom::{Param, Tensor};
    /// let error = Param::new(Tensor::from([1i32])).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "a `Param` holds a float, and this is i32[1]; cast it, or keep it as a `Tensor`"
    /// );
    /// ```
    ///
    /// # Errors
    ///
    /// If the value is not a float.
    pub fn new(value: Tensor) -> Result<Param> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if !value.dtype().is_float() {
            let aval = value.aval().clone();
            return Err(BackwardFault::NotFloat { aval }.into_error());
        }
        Ok(Param(Arc::new(Slot {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            state: Mutex::new(State {
                value,
                leaf: None,
                grad: None,
            }),
            hooks: Mutex::default(),
        })))
    }

    /// Returns the number that tells the parameter apart in printed graphs.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Returns the value for computations. Within [`no_grad`], it is a tensor like any other.
    ///
    /// ```
    /// # use gradloom::{Param, Tensor, no_grad};
    /// let w = Param::new(Tensor::from(2.0f32))?;
    /// assert!((w.tensor() * 3.0).requires_grad());
    /// assert!(!no_grad(|| w.tensor() * 3.0).requires_grad());
    /// # Ok::<(), gradloom::Error>(())
    /// ```
    pub fn tensor(&self) -> Tensor {
        // A cached call would not see that the parameter has changed.
        recording::impure_call();
        let mut state = self.0.lock();
        if recording::ignores_params() {
            return state.value.clone();
        }
        if let Some(leaf) = &state.leaf {
            return leaf.clone();
        }
        let code = Code::new(LeafCode {
            id: self.0.id,
            slot: Arc::downgrade(&self.0),
            spec: spec_of(&state.value).cloned(),
        });
        let leaf = param_leaf(&state.value, [code.into(), Static::Int(1)]);
        state.leaf = Some(leaf.clone());
        leaf
    }

    /// Returns the sum of the gradients of all backward passes since [`zero_grad`](Param::zero_grad), if there was one.
    pub fn grad(&self) -> Option<Tensor> {
        recording::impure_call();
        self.0.lock().grad.clone()
    }

    /// Removes the gradient.
    pub fn zero_grad(&self) {
        recording::impure_call();
        let old = self.0.lock().grad.take();
        drop(old);
    }

    /// Adds to the gradient.
    ///
    /// ```
    /// # use gradloom::{Param, Tensor};
    /// let w = Param::new(Tensor::from([1.0f32, 2.0]))?;
    /// w.accumulate_grad(&Tensor::from([1.0f32, 1.0]))?;
    /// w.accumulate_grad(&Tensor::from([0.0f32, 2.0]))?;
    /// assert_eq!(w.grad().unwrap().to_vec::<f32>(), [1.0, 3.0]);
    /// assert!(w.accumulate_grad(&Tensor::from(1.0f32)).is_err());
    /// # Ok::<(), gradloom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the shape or dtype is not that of the parameter.
    pub fn accumulate_grad(&self, ct: &Tensor) -> Result<()> {
        recording::impure_call();
        self.0.accumulate(ct)
    }

    /// Replaces the value, and keeps the gradient. What was computed of the old value still leads to this parameter. A value
    /// without a spec is placed on the devices of a mesh as the old one was.
    ///
    /// # Errors
    ///
    /// If the shape or dtype is not that of the parameter.
    pub fn set(&self, value: Tensor) -> Result<()> {
        recording::impure_call();
        let value = match value.0.depends_on_params() {
            // No pass follows the path beyond the new value, so it is not kept.
            true => {
                let _untraced = NoGrad::new();
                record_elementwise(Op::Identity, &[&value])?
            }
            false => value,
        };
        let value = match spec_of(&value) {
            Some(_) => value,
            None => self.0.placed(value)?,
        };
        // Steps that read no value would make an endless chain of promises.
        if value.0.depth() >= MAX_PENDING_OPS {
            run::realise(std::slice::from_ref(value.physical_value()))?;
        }
        let mut state = self.0.lock();
        if value.aval() != state.value.aval() {
            let (found, expected) = (value.aval().clone(), state.value.aval().clone());
            return Err(BackwardFault::Set { found, expected }.into_error());
        }
        let old = (
            std::mem::replace(&mut state.value, value),
            state.leaf.take(),
        );
        drop(state);
        drop(old);
        Ok(())
    }

    /// Runs `hook` on the gradient of each backward pass, before it is added to the slot. A tensor that the hook returns
    /// replaces the gradient. The hook runs as long as the returned handle is not [removed](GradHook::remove).
    ///
    /// ```
    /// # use gradloom::{Param, Tensor};
    /// let w = Param::new(Tensor::from(2.0f32))?;
    /// let hook = w.on_grad(|ct| Some(ct.clamp(-1.0, 1.0)));
    /// w.tensor().square().backward()?;
    /// assert_eq!(w.grad().unwrap().item::<f32>(), 1.0);
    /// hook.remove();
    /// w.tensor().square().backward()?;
    /// assert_eq!(w.grad().unwrap().item::<f32>(), 5.0);
    /// # Ok::<(), gradloom::Error>(())
    /// ```
    pub fn on_grad(
        &self,
        hook: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static,
    ) -> GradHook {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.0.lock_hooks().push((id, Arc::new(hook)));
        GradHook {
            slot: Arc::downgrade(&self.0),
            id,
        }
    }
}

/// Handle to a hook that [`Param::on_grad`] has added.
#[derive(Debug)]
pub struct GradHook {
    slot: Weak<Slot>,
    id: u64,
}

impl GradHook {
    /// Removes the hook.
    pub fn remove(self) {
        if let Some(slot) = self.slot.upgrade() {
            let mut hooks = slot.lock_hooks();
            let at = hooks.iter().position(|(id, _)| *id == self.id);
            let old = at.map(|at| hooks.remove(at));
            drop(hooks);
            drop(old);
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        let grad = state.grad.as_ref().map(Tensor::aval);
        f.debug_struct("Param")
            .field("id", &self.id)
            .field("value", state.value.aval())
            .field("grad", &grad)
            .finish()
    }
}

impl fmt::Debug for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl Slot {
    // A panic cannot leave the state half written.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn lock_hooks(&self) -> MutexGuard<'_, Vec<(u64, Arc<Hook>)>> {
        self.hooks.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns another value, placed as the value is, if it is placed.
    fn placed(&self, value: Tensor) -> Result<Tensor> {
        let state = self.lock();
        let spec = spec_of(&state.value).cloned();
        // Another shape is an error of the caller.
        let spec = spec.filter(|_| value.aval() == state.value.aval());
        drop(state);
        match spec {
            Some(spec) => record_one(Op::ShardingConstraint, [spec.into()], &[&value], &[]),
            None => Ok(value),
        }
    }

    /// Returns the gradient after all hooks.
    fn hooked(&self, ct: Tensor) -> Result<Tensor> {
        let hooks: Vec<Arc<Hook>> = self.lock_hooks().iter().map(|(_, f)| f.clone()).collect();
        let mut ct = ct;
        for hook in hooks {
            if let Some(other) = hook(&ct) {
                self.check(&other)?;
                ct = other;
            }
        }
        Ok(ct)
    }

    fn check(&self, ct: &Tensor) -> Result<()> {
        let expected = self.lock().value.aval().clone();
        match *ct.aval() == expected {
            true => Ok(()),
            false => Err(Error::Mismatch {
                what: "gradient",
                path: format!("param#{}", self.id),
                found: Box::new(ct.aval().clone()),
                expected: Box::new(expected),
            }),
        }
    }

    /// Adds to the gradient.
    ///
    /// The sum is recorded without the lock, because that may compute, and code of the user that runs then may use
    /// the parameter. If another thread has added meanwhile, the sum is recorded again.
    fn accumulate(&self, ct: &Tensor) -> Result<()> {
        self.check(ct)?;
        // The slot must not keep a value that stands for a lane.
        if ct.0.depth() == NEVER {
            run::realise(std::slice::from_ref(ct.physical_value()))?;
        }
        let _untraced = NoGrad::new();
        loop {
            let before = self.lock().grad.clone();
            let sum = match &before {
                Some(old) => old + ct,
                None => ct.clone(),
            };
            let mut state = self.lock();
            let is_same = match (&state.grad, &before) {
                (None, None) => true,
                (Some(now), Some(before)) => Shared::ptr_eq(&now.0, &before.0),
                _ => false,
            };
            if is_same {
                let old = state.grad.replace(sum);
                drop(state);
                drop(old);
                return Ok(());
            }
        }
    }
}

/// Guard for the time in which ops on parameters are ops on other tensors: see [`no_grad`].
///
/// ```
/// use gradloom::{NoGrad, Param, Tensor};
///
/// let w = Param::new(Tensor::from(2.0f32))?;
/// let x = w.tensor();
/// let guard = NoGrad::new();
/// assert!(!(&x * 2.0).requires_grad());
/// drop(guard);
/// assert!((&x * 2.0).requires_grad());
/// # Ok::<(), gradloom::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "ops are recorded as usual when the guard is dropped"]
pub struct NoGrad {
    /// The mode is one of the thread.
    not_send: PhantomData<*const ()>,
}

impl NoGrad {
    /// Begins the time. It ends when the guard is dropped, also by a panic. Of several guards, the last one ends it.
    #[expect(clippy::new_without_default, reason = "a guard is made for its effect")]
    pub fn new() -> NoGrad {
        recording::begin_no_grad();
        NoGrad {
            not_send: PhantomData,
        }
    }
}

impl Drop for NoGrad {
    fn drop(&mut self) {
        recording::end_no_grad();
    }
}

/// Runs `f`, whose results do not lead to a [`Param`]. Transforms of closures are not affected.
///
/// ```
/// use gradloom::{Param, Tensor, no_grad};
///
/// let w = Param::new(Tensor::from(2.0f32))?;
/// let y = no_grad(|| w.tensor() * 3.0);
/// assert!(!y.requires_grad() && y.backward().is_err());
/// # Ok::<(), gradloom::Error>(())
/// ```
pub fn no_grad<R>(f: impl FnOnce() -> R) -> R {
    let _guard = NoGrad::new();
    f()
}

/// Returns the tensor that `hook` sees the cotangent of, in each derivative in reverse mode.
///
/// The result equals `x`. A tensor that the hook returns replaces the cotangent. A hook that stores the cotangent keeps
/// the gradient of an intermediate value.
///
/// ```
/// use gradloom::{Param, Tensor, with_grad_hook};
/// use std::sync::{Arc, Mutex};
///
/// let w = Param::new(Tensor::from([1.0f32, 2.0]))?;
/// let seen = Arc::new(Mutex::new(None));
/// let slot = seen.clone();
/// let h = with_grad_hook(&w.tensor().square(), move |ct| {
///     *slot.lock().unwrap() = Some(ct.clone());
///     None
/// });
/// (h * 3.0).sum(..).backward()?;
/// assert_eq!(seen.lock().unwrap().as_ref().unwrap().to_vec::<f32>(), [3.0, 3.0]);
/// assert_eq!(w.grad().unwrap().to_vec::<f32>(), [6.0, 12.0]);
/// # Ok::<(), gradloom::Error>(())
/// ```
#[track_caller]
pub fn with_grad_hook(
    x: &Tensor,
    hook: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static,
) -> Tensor {
    expect(crate::custom::try_custom_call(
        &Arc::new(HookFunction(hook)),
        x,
    ))
}

/// The identity, whose backward rule is a hook.
struct HookFunction<H>(H);

impl<H> crate::custom::CustomFunction for HookFunction<H>
where
    H: Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static,
{
    type Input = Tensor;
    type Output = Tensor;
    type Saved = ();

    fn name(&self) -> String {
        "grad_hook".to_owned()
    }

    fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, ())> {
        Ok((x.clone(), ()))
    }

    fn backward(&self, _: &crate::custom::Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
        Ok((self.0)(ct).unwrap_or_else(|| ct.clone()))
    }

    fn jvp(&self, _: &crate::custom::Call<'_, Self>, dx: &Tensor) -> Result<Tensor> {
        Ok(dx.clone())
    }
}
