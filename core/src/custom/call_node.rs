//! Calls of custom functions.

use super::GradientValidator;
use crate::error::CustomFault;
use crate::graph::recording::{self, UnrepeatedAction};
use crate::graph::seq_no::seq_no_of_all;
use crate::graph::value::{NEVER, Value};
use crate::raise::{catch, expect};
use crate::tensor::host_code::{CallCode, RuleCall, Rules, statics_of};
use crate::tensor::record::record_many;
use crate::transform::{captured_by, custom_on_stand_ins, stand_in};
use crate::tree::arithmetic::paths;
use crate::tree::{leaves, with_leaves, with_physical};
use crate::{Aval, Error, Result, Tensor, Tree};
use gradloom_ir::Op;
use std::any::type_name;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A function whose derivatives the user writes: see [`custom_call`].
///
/// ```
/// use gradloom::custom::{Call, CustomFunction, custom_call};
/// use gradloom::prelude::*;
/// use std::sync::Arc;
///
/// /// The square, computed by code that is not a tensor operation, with a bounded gradient.
/// struct Clipped {
///     most: f64,
/// }
///
/// impl CustomFunction for Clipped {
///     type Input = Tensor;
///     type Output = Tensor;
///     type Saved = ();
///
///     fn forward(&self, x: &Tensor, _: &[bool]) -> Result<(Tensor, ())> {
///         let squares = x.to_vec::<f64>().into_iter().map(|x| x * x).collect();
///         Ok((Tensor::try_from_vec(squares, x.shape())?, ()))
///     }
///
///     fn backward(&self, call: &Call<'_, Self>, ct: &Tensor) -> Result<Tensor> {
///         Ok((call.x * 2.0 * ct).clamp(-self.most, self.most))
///     }
/// }
///
/// let f = Arc::new(Clipped { most: 1.0 });
/// let x = Tensor::from([0.25f64, 5.0]);
/// let y = custom_call(&f, &x);
/// assert_eq!(y.to_vec::<f64>(), [0.0625, 25.0]);
/// let g = grad(|x: &Tensor| custom_call(&f, x).sum(..))(&x);
/// assert_eq!(g.to_vec::<f64>(), [0.5, 1.0]);
/// ```
pub trait CustomFunction: Send + Sync + Sized + 'static {
    /// The argument.
    type Input: Tree + Send + Sync + 'static;
    /// The result. It has at least one tensor.
    type Output: Tree + Send + Sync + 'static;
    /// The context: everything that the derivatives need besides the argument and the result.
    ///
    /// It is dropped once: when nothing can ask for the derivative again, or when a backward pass has used it that
    /// does not retain the graph. A panic of its destructor is printed, and the computation goes on. [`FunctionContext`](super::FunctionContext) holds anything.
    type Saved: Send + Sync + 'static;

    /// Whether calls with equal arguments may share one call of `forward` and of `backward`, as in the cached calls
    /// of a traced function. By default, each call runs `forward`.
    const PURE: bool = false;

    /// Whether the elements of gradients and tangents are checked to be finite, which computes them.
    const CHECK_FINITE: bool = false;

    /// Returns the name that messages and programs show.
    fn name(&self) -> String {
        name_of_type::<Self>().to_owned()
    }

    /// Returns the result and the context.
    ///
    /// `needs_grad` tells for each leaf of `x` whether a derivative may be asked for. The values of `x` are promises
    /// until they are read. Under [`vmap`](crate::vmap) and in the bodies of loops they cannot be read.
    ///
    /// # Errors
    ///
    /// Errors are those of the call.
    fn forward(&self, x: &Self::Input, needs_grad: &[bool]) -> Result<(Self::Output, Self::Saved)>;

    /// Returns the cotangent of the argument, given those of all results. It runs once in a backward pass.
    ///
    /// A result that is not used has a cotangent of zeros. The cotangents of inputs that do not need one, and of
    /// those that are not floats, are not read; `zeros_like` is cheap. Made of tensor operations, the result has
    /// derivatives itself.
    ///
    /// # Errors
    ///
    /// Errors are those of the backward pass.
    fn backward(&self, call: &Call<'_, Self>, ct: &Self::Output) -> Result<Self::Input>;

    /// Returns the tangent of the result, given that of the argument.
    ///
    /// # Errors
    ///
    /// By default, forward mode is an error that names the function.
    fn jvp(&self, call: &Call<'_, Self>, dx: &Self::Input) -> Result<Self::Output> {
        let _ = (call, dx);
        Err(CustomFault::NoRule {
            rule: "jvp",
            needed_by: "forward mode",
        }
        .into_error(self.name()))
    }

    /// Returns tensors with the shapes and dtypes of the result for an argument, of which only shapes and dtypes are
    /// read. If it is given, [`vmap`](crate::vmap) calls [`batch`](CustomFunction::batch).
    ///
    /// Without it, `vmap` and the bodies of loops run `forward` and `backward` on values that cannot be read. This
    /// suffices if they are made of tensor operations. With it, the function cannot be called in the body of a loop.
    fn lane_result(&self, x: &Self::Input) -> Option<Self::Output> {
        let _ = x;
        None
    }

    /// Returns the results of `n` lanes at once, for [`vmap`](crate::vmap).
    ///
    /// The leaves of `x` that are marked in `lanes` have a first axis of lanes, and so have all leaves of the result.
    /// The derivative of `vmap` of the function is that of what the rule computes.
    ///
    /// # Errors
    ///
    /// Errors are those of the call.
    fn batch(&self, x: &Self::Input, lanes: &[bool], n: usize) -> Result<Self::Output> {
        let _ = (x, lanes, n);
        Err(CustomFault::NoRule {
            rule: "batch",
            needed_by: "`vmap`",
        }
        .into_error(self.name()))
    }
}

/// A call of a custom function whose derivative is computed.
#[derive(Debug)]
pub struct Call<'a, F: CustomFunction> {
    /// The context that `forward` returned.
    pub saved: &'a F::Saved,
    /// The argument. It depends on what it depended on in the call, so derivatives of the rule are right.
    pub x: &'a F::Input,
    /// The result, with the derivative of the function.
    pub y: &'a F::Output,
    /// For each leaf of the argument, whether its cotangent is read, or its tangent is not zero.
    pub needs_input_grad: &'a [bool],
}

/// Calls a custom function.
///
/// The result has the derivatives of the function, in closures under all transforms and for
/// [`Param`](crate::Param)s. A traced function that calls it is recorded at each call, unless
/// [`CustomFunction::PURE`] is set.
///
/// ```
/// # use gradloom::custom::{Call, CustomFunction, custom_call};
/// # use gradloom::prelude::*;
/// # use std::sync::Arc;
/// /// The sum and the difference: one call of `backward` gets both cotangents.
/// struct SumAndDifference;
///
/// impl CustomFunction for SumAndDifference {
///     type Input = (Tensor, Tensor);
///     type Output = (Tensor, Tensor);
///     type Saved = ();
///
///     fn forward(&self, (a, b): &Self::Input, _: &[bool]) -> Result<(Self::Output, ())> {
///         Ok(((a + b, a - b), ()))
///     }
///
///     fn backward(&self, _: &Call<'_, Self>, (sum, difference): &Self::Output) -> Result<Self::Input> {
///         Ok((sum + difference, sum - difference))
///     }
/// }
///
/// let f = Arc::new(SumAndDifference);
/// let x = (Tensor::from([1.0f32]), Tensor::from([2.0f32]));
/// let g = grad(|x: &(Tensor, Tensor)| {
///     let (sum, difference) = custom_call(&f, x);
///     (sum * difference).sum(..)
/// })(&x);
/// assert_eq!((g.0.item::<f32>(), g.1.item::<f32>()), (2.0, -4.0));
/// ```
///
/// # Panics
///
/// If `forward` fails, returns no tensor, or captures a value that a transform traces. In a function that returns
/// `Result`, this is an error instead.
#[track_caller]
pub fn custom_call<F: CustomFunction>(f: &Arc<F>, x: &F::Input) -> F::Output {
    expect(try_custom_call(f, x))
}

/// Calls a custom function, and returns its errors: see [`custom_call`].
///
/// ```
/// # use gradloom::custom::{Call, CustomFunction, try_custom_call};
/// # use gradloom::prelude::*;
/// # use std::sync::Arc;
/// struct Nothing;
/// impl CustomFunction for Nothing {
///     type Input = Tensor;
///     type Output = Vec<Tensor>;
///     type Saved = ();
///     fn forward(&self, _: &Tensor, _: &[bool]) -> Result<(Vec<Tensor>, ())> {
///         Ok((Vec::new(), ()))
///     }
///     fn backward(&self, call: &Call<'_, Self>, _: &Vec<Tensor>) -> Result<Tensor> {
///         Ok(call.x.clone())
///     }
/// }
/// let error = try_custom_call(&Arc::new(Nothing), &Tensor::from(1.0f32)).unwrap_err();
/// assert_eq!(error.to_string(), "`Nothing`: `forward` returned no tensor");
/// ```
///
/// # Errors
///
/// As for [`custom_call`].
pub fn try_custom_call<F: CustomFunction>(f: &Arc<F>, x: &F::Input) -> Result<F::Output> {
    if !F::PURE {
        recording::note_action(UnrepeatedAction::CallsCustom(name_of_type::<F>()));
    }
    let operands = leaves(x);
    match operands.iter().any(|x| x.0.depth() == NEVER) {
        true => call_on_stand_ins(f, x, &operands),
        false => call_on_values(f, x, &operands),
    }
}

/// Returns the name of a type, without its path and its generic arguments.
fn name_of_type<F>() -> &'static str {
    let name = type_name::<F>();
    let start = name.split('<').next().unwrap_or(name);
    start.rsplit("::").next().unwrap_or(start)
}

fn call_on_values<F: CustomFunction>(
    f: &Arc<F>,
    x: &F::Input,
    operands: &[Tensor],
) -> Result<F::Output> {
    let needs: Vec<bool> = operands.iter().map(needs_grad).collect();
    let since = seq_no_of_all();
    let (found, reads) = recording::with_reads(|| catch(|| f.forward(x, &needs)));
    let (y, saved) = found?;
    let saved = ContextRef::new(saved);
    let values = outputs(&**f, &y)?;
    // Elements that were read may be of a captured value, too.
    let sources: Vec<Tensor> = values
        .iter()
        .cloned()
        .chain(reads.iter().map(Tensor::of))
        .collect();
    let captured = captured_by(operands, since, &sources);
    let loses = |x: &&Tensor| needs_grad(x) && x.0.op != Op::StopGradient;
    if let Some(captured) = captured.iter().find(loses) {
        let aval = captured.aval().clone();
        return Err(CustomFault::Captured { aval }.into_error(f.name()));
    }
    if !needs.contains(&true) {
        return Ok(y);
    }
    let mut node = CallNode::new(f, x, &y, Some(saved));
    // A context without a size holds nothing that was read.
    node.saves_elements = !reads.is_empty() && size_of::<F::Saved>() > 0;
    let data: Vec<&Tensor> = values.iter().chain(operands).collect();
    let statics = statics_of(CallCode(Arc::new(node)), values.len());
    let outs = record_many(Op::Custom, statics, &data, &[], values.len())?;
    Ok(with_leaves(&y, &outs))
}

/// Returns the leaves of the result of `forward`.
fn outputs<F: CustomFunction>(f: &F, y: &F::Output) -> Result<Vec<Tensor>> {
    let values = leaves(y);
    match values.is_empty() {
        true => Err(CustomFault::NoOutputs { rule: "forward" }.into_error(f.name())),
        false => Ok(values),
    }
}

/// Returns whether a derivative may be asked for.
fn needs_grad(x: &Tensor) -> bool {
    let value: &Value = &x.0;
    let ignored = recording::ignores_params() && value.scopes().only_params_open();
    x.dtype().is_float() && value.is_in_scope() && !ignored
}

/// Calls the function on values that stand for many, such as the lanes of `vmap`. Both rules are recorded at once.
fn call_on_stand_ins<F: CustomFunction>(
    f: &Arc<F>,
    x: &F::Input,
    operands: &[Tensor],
) -> Result<F::Output> {
    if let Some(y) = catch(|| Ok(f.lane_result(x)))? {
        return call_on_lanes(f, x, &y, operands);
    }
    let needs: Vec<bool> = operands.iter().map(|x| x.dtype().is_float()).collect();
    let active: Vec<usize> = (0..needs.len()).filter(|i| needs[*i]).collect();
    let called: RefCell<Option<(CallNode<F>, F::Output)>> = RefCell::new(None);
    let forward = |inputs: &[Tensor]| {
        let x = with_physical(x, inputs);
        let (y, saved) = catch(|| f.forward(&x, &needs))?;
        let saved = ContextRef::new(saved);
        let values = outputs(&**f, &y)?;
        let node = CallNode::new(f, &x, &y, Some(saved));
        called.replace(Some((node, y)));
        Ok(values)
    };
    let backward = |x: &[Tensor], y: &[Tensor], cts: &[Tensor]| {
        let called = called.borrow();
        let (node, _) = called.as_ref().expect("`forward` has run");
        let is_float = |ct: &&Tensor| ct.dtype().is_float();
        let cts: Vec<Tensor> = cts.iter().filter(is_float).cloned().collect();
        let active = &active;
        let found = node.cotangents(&RuleCall { x, y, active }, &cts)?;
        let mut found = found.into_iter();
        let one = |(x, needs): (&Tensor, &bool)| match needs {
            true => found.next().expect("a cotangent for each active input"),
            false => x.zeros_like(),
        };
        Ok(x.iter().zip(&needs).map(one).collect())
    };
    let outs = custom_on_stand_ins(operands, forward, backward)?;
    let (_, y) = called.into_inner().expect("`forward` has run");
    Ok(with_physical(&y, &outs))
}

/// Records an op that has no values but a rule for all lanes of `vmap`.
fn call_on_lanes<F: CustomFunction>(
    f: &Arc<F>,
    x: &F::Input,
    y: &F::Output,
    operands: &[Tensor],
) -> Result<F::Output> {
    let values: Vec<Tensor> = outputs(&**f, y)?
        .iter()
        .map(|y| stand_in(y.aval()))
        .collect();
    let node = CallNode::new(f, x, y, None);
    let data: Vec<&Tensor> = values.iter().chain(operands).collect();
    let statics = statics_of(CallCode(Arc::new(node)), values.len());
    let outs = record_many(Op::Custom, statics, &data, &[], values.len())?;
    Ok(with_leaves(y, &outs))
}

/// A call whose derivative may be asked for: the function, the context, and the structures of argument and result.
struct CallNode<F: CustomFunction> {
    id: u64,
    function: Arc<F>,
    saved: Mutex<Saved<F::Saved>>,
    /// Whether the context may hold elements that `forward` read of values with derivatives.
    saves_elements: bool,
    /// The structure of the argument. Its tensors have shapes and no elements.
    x: F::Input,
    y: F::Output,
}

/// A handle to a context.
///
/// A panic of the destructor of the context is printed and ends here. If it went on, what the functions on the stack are
/// about to return would never be dropped (rust-lang/rust#47949), so it would leak.
struct ContextRef<S>(Option<Arc<S>>);

impl<S> ContextRef<S> {
    fn new(saved: S) -> ContextRef<S> {
        ContextRef(Some(Arc::new(saved)))
    }

    fn get(&self) -> &S {
        self.0
            .as_ref()
            .expect("a handle has its context until it is dropped")
    }
}

impl<S> Clone for ContextRef<S> {
    fn clone(&self) -> ContextRef<S> {
        ContextRef(self.0.clone())
    }
}

impl<S> Drop for ContextRef<S> {
    fn drop(&mut self) {
        let saved = self.0.take();
        let _ = catch_unwind(AssertUnwindSafe(move || drop(saved)));
    }
}

/// The context of a call.
enum Saved<S> {
    Held(ContextRef<S>),
    /// Released at this place.
    Released(&'static Location<'static>),
    /// The call stands for the lanes of `vmap`, and `forward` has not run.
    OfLanes,
}

/// Returns a tree with the shapes of another one, which keeps none of its tensors.
fn without_elements<T: Tree>(tree: &T) -> T {
    tree.map(&mut |leaf| stand_in(leaf.aval()))
}

impl<F: CustomFunction> CallNode<F> {
    fn new(
        f: &Arc<F>,
        x: &F::Input,
        y: &F::Output,
        saved: Option<ContextRef<F::Saved>>,
    ) -> CallNode<F> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        CallNode {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            function: f.clone(),
            saved: Mutex::new(saved.map_or(Saved::OfLanes, Saved::Held)),
            saves_elements: false,
            x: without_elements(x),
            y: without_elements(y),
        }
    }

    fn held(&self) -> Result<ContextRef<F::Saved>> {
        let fault = match &*self.saved.lock().unwrap_or_else(|e| e.into_inner()) {
            Saved::Held(saved) => return Ok(saved.clone()),
            Saved::Released(at) => CustomFault::ContextReleased { at: at.to_string() },
            Saved::OfLanes => CustomFault::NoRule {
                rule: "backward on lanes",
                needed_by: "a derivative inside of `vmap`",
            },
        };
        Err(fault.into_error(self.name()))
    }

    /// Runs a rule, and names the function in errors of its context.
    ///
    /// If a derivative of the rule may be asked for, it must not depend on elements that are read.
    fn run<T>(
        &self,
        name: &'static str,
        of: &RuleCall<'_>,
        rule: impl FnOnce(&F, &Call<'_, F>) -> Result<T>,
    ) -> Result<T> {
        let saved = self.held()?;
        let reads = |rule| Err(CustomFault::ReadsElements { rule }.into_error(self.name()));
        let has_derivative = of.x.iter().any(needs_grad);
        if has_derivative && self.saves_elements {
            return reads("forward");
        }
        let mut needs = vec![false; of.x.len()];
        of.active.iter().for_each(|i| needs[*i] = true);
        let (x, y) = (with_physical(&self.x, of.x), with_physical(&self.y, of.y));
        let call = Call {
            saved: saved.get(),
            x: &x,
            y: &y,
            needs_input_grad: &needs,
        };
        let run = || catch(|| rule(&self.function, &call));
        let (result, read) = recording::with_reads(run);
        if has_derivative && !read.is_empty() && result.is_ok() {
            return reads(name);
        }
        result.map_err(|mut error| {
            if let Error::Custom { function, .. } = &mut error
                && function.is_empty()
            {
                *function = self.name();
            }
            error
        })
    }

    fn validator(&self, rule: &'static str) -> GradientValidator {
        let check = GradientValidator::new(self.name()).of_rule(rule);
        match F::CHECK_FINITE {
            true => check.finite(),
            false => check,
        }
    }
}

impl<F: CustomFunction> Rules for CallNode<F> {
    fn name(&self) -> String {
        format!("{}#{}", self.function.name(), self.id)
    }

    fn is_of_lanes(&self) -> bool {
        let saved = self.saved.lock().unwrap_or_else(|e| e.into_inner());
        matches!(*saved, Saved::OfLanes)
    }

    fn tangents(&self, of: &RuleCall<'_>, dx: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut tangents: Vec<Tensor> = of.x.iter().map(Tensor::zeros_like).collect();
        for (i, dx) in of.active.iter().zip(dx) {
            tangents[*i] = dx.clone();
        }
        let dx = with_physical(&self.x, &tangents);
        let dy = self.run("jvp", of, |f, call| f.jvp(call, &dx))?;
        let found = leaves(&dy);
        let expected = leaves(&self.y);
        let expected: Vec<&Aval> = expected.iter().map(Tensor::aval).collect();
        let check = self.validator("jvp");
        let paths = paths(&self.y, "result");
        check.check_avals(&expected, &paths, &found.iter().collect::<Vec<_>>())?;
        let pairs = found.iter().zip(expected);
        let floats = pairs.filter(|(_, aval)| aval.dtype().is_float());
        Ok(floats.map(|(dy, _)| dy.physical()).collect())
    }

    fn cotangents(&self, of: &RuleCall<'_>, cts: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut given = cts.iter();
        let mut ct = |y: &Tensor| match y.dtype().is_float() {
            true => given.next().expect("a cotangent for each float").clone(),
            false => y.zeros_like(),
        };
        let cts: Vec<Tensor> = of.y.iter().map(&mut ct).collect();
        let ct = with_physical(&self.y, &cts);
        let found = self.run("backward", of, |f, call| f.backward(call, &ct))?;
        let (found, expected) = (leaves(&found), leaves(&self.x));
        let check = self.validator("backward");
        check.check_count(found.len(), expected.len())?;
        let paths = paths(&self.x, "input");
        let active = of.active.iter().map(|i| {
            check.check_one(expected[*i].aval(), &paths[*i], &found[*i])?;
            let ct = found[*i].clone().as_cotangent_of(expected[*i].aval());
            Ok(ct.physical())
        });
        active.collect()
    }

    fn batch(&self, x: &[Tensor], lanes: &[bool], n: usize) -> Result<Vec<Tensor>> {
        let x = with_leaves(&self.x, x);
        let y = leaves(&catch(|| self.function.batch(&x, lanes, n))?);
        let check = self.validator("batch");
        let one = leaves(&self.y);
        check.check_count(y.len(), one.len())?;
        for ((y, one), path) in y.iter().zip(&one).zip(paths(&self.y, "result")) {
            let all = Aval::new(one.dtype(), [&[n], one.shape()].concat());
            check.check_whole(&all, &path, y)?;
        }
        Ok(y)
    }

    fn release(&self, at: &'static Location<'static>) {
        let mut saved = self.saved.lock().unwrap_or_else(|e| e.into_inner());
        let old = match &*saved {
            Saved::Held(_) => std::mem::replace(&mut *saved, Saved::Released(at)),
            Saved::Released(_) | Saved::OfLanes => return,
        };
        // A destructor of the user's runs after the lock is released.
        drop(saved);
        drop(old);
    }
}
