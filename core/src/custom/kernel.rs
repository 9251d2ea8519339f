//! Kernels of the user: functions on slices as lazy ops.

use super::{KernelInput, KernelOutput};
use crate::backend;
use crate::error::CustomFault;
use crate::graph::value::NEVER;
use crate::raise::{catch, expect};
use crate::tensor::record::record_many;
use crate::transform::custom_on_stand_ins;
use crate::tree::with_physical;
use crate::{Aval, Result, Tensor};
use gradloom_ir::{Code, Op, Static};
use std::any::type_name;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// A function on slices, such as one of a foreign library: see [`HostKernel`].
pub trait Kernel: Send + Sync + Sized + 'static {
    /// Whether [`vjp`](Kernel::vjp) is implemented. A derivative of a kernel without it is an error.
    const DIFFERENTIABLE: bool = false;

    /// Returns the name that messages and programs show.
    fn name(&self) -> String {
        let name = type_name::<Self>();
        let start = name.split('<').next().unwrap_or(name);
        start.rsplit("::").next().unwrap_or(start).to_owned()
    }

    /// Returns the dtypes and shapes of the results, given those of the operands.
    ///
    /// # Errors
    ///
    /// If the kernel does not take these operands. [`Error::of_host`](crate::Error::of_host) makes an error of a text.
    fn avals(&self, x: &[Aval]) -> Result<Vec<Aval>>;

    /// Writes the elements of the results.
    ///
    /// It has to compute equal results of equal operands: a plan may run it again, or not at all.
    ///
    /// # Errors
    ///
    /// A text. The evaluation that needs the results returns it, and can be retried.
    fn run(&self, x: &[KernelInput<'_>], y: &mut [KernelOutput<'_>]) -> Result<(), String>;

    /// Returns the cotangents of the operands, given the operands, the results and the cotangents of the results.
    ///
    /// It records ops on promises and may call other kernels.
    ///
    /// # Errors
    ///
    /// Errors are those of the derivative.
    fn vjp(&self, x: &[Tensor], y: &[Tensor], ct: &[Tensor]) -> Result<Vec<Tensor>> {
        let _ = (x, y, ct);
        Err(CustomFault::NoDerivative.into_error(self.name()))
    }
}

/// Handle to a [`Kernel`]. A call is a promise, which plans compute along with other ops.
///
/// Make it once and keep it: calls of one handle, and of its clones, share plans.
///
/// ```
/// use gradloom::custom::{HostKernel, Kernel, KernelInput, KernelOutput};
/// use gradloom::prelude::*;
/// use gradloom::vmap;
///
/// /// The running maximum of a vector.
/// struct RunningMax;
///
/// impl Kernel for RunningMax {
///     fn avals(&self, x: &[Aval]) -> Result<Vec<Aval>> {
///         Ok(vec![x[0].clone()])
///     }
///
///     fn run(&self, x: &[KernelInput<'_>], y: &mut [KernelOutput<'_>]) -> Result<(), String> {
///         let mut most = f32::NEG_INFINITY;
///         for (y, x) in y[0].as_mut_slice::<f32>().iter_mut().zip(x[0].as_slice::<f32>()) {
///             most = most.max(*x);
///             *y = most;
///         }
///         Ok(())
///     }
/// }
///
/// let running_max = HostKernel::new(RunningMax);
/// let x = Tensor::from([[1.0f32, 3.0, 2.0], [0.0, -1.0, 5.0]]);
/// let rows = vmap(|row: &Tensor| running_max.call(&[row]).remove(0))(&x);
/// assert!(!rows.is_realised());
/// assert_eq!(rows.to_vec::<f32>(), [1.0, 3.0, 3.0, 0.0, 0.0, 5.0]);
/// ```
pub struct HostKernel<K> {
    kernel: Arc<K>,
    code: Code,
}

impl<K> Clone for HostKernel<K> {
    fn clone(&self) -> HostKernel<K> {
        HostKernel {
            kernel: self.kernel.clone(),
            code: self.code.clone(),
        }
    }
}

impl<K: Kernel> fmt::Debug for HostKernel<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostKernel")
            .field(&self.kernel.name())
            .finish()
    }
}

impl<K: Kernel> HostKernel<K> {
    /// Returns a handle to a kernel.
    pub fn new(kernel: K) -> HostKernel<K> {
        let kernel = Arc::new(kernel);
        let (infers, runs) = (kernel.clone(), kernel.clone());
        let infer = Box::new(move |x: &[Aval]| infers.avals(x));
        let run: Arc<_> =
            Arc::new(move |x: &[KernelInput<'_>], y: &mut [KernelOutput<'_>]| runs.run(x, y));
        let code = Code::new(backend::HostKernel::new(kernel.name(), infer, run));
        HostKernel { kernel, code }
    }

    /// Returns the results as promises.
    ///
    /// # Panics
    ///
    /// If the kernel does not take these operands. In a function that returns `Result`, this is an error instead.
    #[track_caller]
    pub fn call(&self, x: &[&Tensor]) -> Vec<Tensor> {
        expect(self.try_call(x))
    }

    /// Returns the results as promises.
    ///
    /// # Errors
    ///
    /// If the kernel does not take these operands.
    pub fn try_call(&self, x: &[&Tensor]) -> Result<Vec<Tensor>> {
        let is_traced = |x: &&Tensor| x.0.is_in_scope() || x.0.depth() == NEVER;
        if !K::DIFFERENTIABLE || !x.iter().any(|x| is_traced(x) && x.dtype().is_float()) {
            return self.record(x);
        }
        let operands: Vec<Tensor> = x.iter().map(|x| (*x).clone()).collect();
        // The results in the call, for their batch prefixes.
        let called: RefCell<Vec<Tensor>> = RefCell::default();
        let forward = |x: &[Tensor]| {
            let x = with_physical(&operands, x);
            let y = self.record(&x.iter().collect::<Vec<_>>())?;
            called.replace(y.clone());
            Ok(y)
        };
        let backward = |x: &[Tensor], y: &[Tensor], cts: &[Tensor]| {
            let x = with_physical(&operands, x);
            let (y, cts) = {
                let called = called.borrow();
                (with_physical(&*called, y), with_physical(&*called, cts))
            };
            let found = catch(|| self.kernel.vjp(&x, &y, &cts))?;
            let check = super::GradientValidator::new(self.kernel.name()).of_rule("vjp");
            check.check(
                &x.iter().collect::<Vec<_>>(),
                &found.iter().collect::<Vec<_>>(),
            )?;
            let pairs = x.iter().zip(found);
            let ct = pairs.map(|(x, ct)| match x.dtype().is_float() {
                true => ct.as_cotangent_of(x.aval()).physical(),
                false => x.zeros_like(),
            });
            Ok(ct.collect())
        };
        let outs = custom_on_stand_ins(&operands, forward, backward)?;
        Ok(with_physical(&called.into_inner(), &outs))
    }

    fn record(&self, x: &[&Tensor]) -> Result<Vec<Tensor>> {
        let logical = |x: &&Tensor| Aval::new(x.dtype(), x.shape());
        let avals: Vec<Aval> = x.iter().map(logical).collect();
        let n_outs = self.kernel.avals(&avals)?.len();
        if n_outs == 0 {
            return Err(CustomFault::NoOutputs { rule: "avals" }.into_error(self.kernel.name()));
        }
        let statics: [Static; 2] = [self.code.clone().into(), Static::Ints(Vec::new())];
        record_many(Op::HostKernel, statics, x, &[], n_outs)
    }
}
