//! Loops and conditionals as ops: the body is traced once, and a plan runs it.

use super::Outcome;
use super::outcome::{TransformSite, Uncaught};
use super::trace::{GraphPart, ScopeGuard, cut, stand_ins};
use crate::error::{ControlFault, CustomFault};
use crate::events::{self, Event};
use crate::graph::recording::UntracedGuard;
use crate::graph::seq_no::seq_no_of_all;
use crate::graph::value::Shared;
use crate::raise::catch;
use crate::tensor::host_code::rules_of;
use crate::tensor::record::record_many;
use crate::tensor::replay::Bound;
use crate::tree::arithmetic::paths;
use crate::tree::{leaves, with_physical};
use crate::{Aval, DType, Result, Tensor, Tree, check};
use gradloom_ir::{Builder, Op, Program, Programs, Static, Var, pass};
use std::collections::BTreeSet;
use std::ops::Range;
use std::slice;

/// Returns the final state and the stacked results of a loop over the slices of `xs`.
///
/// Each turn takes the state and a slice of each leaf of `xs` along axis 0, and returns the next state and
/// a result. The results of all turns are stacked along a new axis 0. The state keeps its shapes and
/// dtypes.
///
/// `f` runs once, on values without elements; the loop is one op, whatever the number of turns. It has
/// derivatives in both modes: reverse mode keeps what the pullback of each turn reads.
///
/// ```
/// # use gradloom::{Tensor, grad, scan};
/// let w = Tensor::from(0.5f32);
/// let decay = |w: &Tensor| {
///     let xs = Tensor::from([1.0f32, 2.0, 3.0]);
///     let (last, all) = scan(|h: &Tensor, x: &Tensor| (h * w + x, h * 1.0), &w.zeros_like(), &xs);
///     assert_eq!(all.shape(), [3]);
///     last
/// };
/// assert_eq!(decay(&w).item::<f32>(), 4.25);
/// assert_eq!(grad(decay)(&w).item::<f32>(), 3.0);
/// ```
///
/// # Panics
///
/// If the leaves of `xs` have different lengths along axis 0, if `f` changes a shape or dtype of the state,
/// or if it reads a value. If `f` returns `Result`, these are errors instead.
#[track_caller]
pub fn scan<C, X, Y, R, F>(f: F, init: &C, xs: &X) -> R::Wrap<(C, Y)>
where
    C: Tree,
    X: Tree,
    Y: Tree,
    R: Outcome<Tree = (C, Y)>,
    F: FnOnce(&C, &X) -> R,
{
    Scan::new(f).call(init, xs)
}

/// A loop over the slices of tensors, with a choice of direction: see [`scan`].
///
/// ```
/// # use gradloom::{Scan, Tensor};
/// let xs = Tensor::from([1.0f32, 2.0, 3.0]);
/// let sums = Scan::new(|h: &Tensor, x: &Tensor| (h + x, h + x)).reverse();
/// let (last, all) = sums.call(&Tensor::from(0.0f32), &xs);
/// assert_eq!(last.item::<f32>(), 6.0);
/// assert_eq!(all.to_vec::<f32>(), [6.0, 5.0, 3.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Scan<F> {
    f: F,
    reverse: bool,
    turns: Option<usize>,
    checkpoint: bool,
    made: TransformSite,
}

impl<F> Scan<F> {
    /// Returns the loop that starts with the first slices.
    #[track_caller]
    pub fn new(f: F) -> Scan<F> {
        Scan {
            f,
            reverse: false,
            turns: None,
            checkpoint: false,
            made: TransformSite::by("scan"),
        }
    }

    /// Starts with the last slices. The results stay at the place of their slices.
    pub fn reverse(mut self) -> Scan<F> {
        self.reverse = true;
        self
    }

    /// Sets the number of turns, which is needed only if no operand has slices.
    pub fn turns(mut self, n: usize) -> Scan<F> {
        self.turns = Some(n);
        self
    }

    /// Keeps only the states for reverse mode, which computes the other values of each turn again.
    pub fn checkpoint(mut self) -> Scan<F> {
        self.checkpoint = true;
        self
    }

    /// Returns the final state and the stacked results.
    ///
    /// # Panics
    ///
    /// As for [`scan`].
    pub fn call<C, X, Y, R>(self, init: &C, xs: &X) -> R::Wrap<(C, Y)>
    where
        C: Tree,
        X: Tree,
        Y: Tree,
        R: Outcome<Tree = (C, Y)>,
        F: FnOnce(&C, &X) -> R,
    {
        let made = self.made;
        R::wrap_made(self.try_call(init, xs), made)
    }

    fn try_call<C, X, Y, R>(self, init: &C, xs: &X) -> Result<(C, Y)>
    where
        C: Tree,
        X: Tree,
        Y: Tree,
        R: Outcome<Tree = (C, Y)>,
        F: FnOnce(&C, &X) -> R,
    {
        let (states, slices) = (leaves(init), leaves(xs));
        let turns = turns("scan", xs, self.turns)?;
        // Axis 0 is that after the batch prefix.
        let first = |x: &Tensor| match x.batch_dims() {
            0 => Ok(x.clone()),
            n => catch(|| Ok(x.physical().moveaxis(n as isize, 0))),
        };
        let slices = slices.iter().map(first).collect::<Result<Vec<Tensor>>>()?;
        let of_slices = slices.iter().map(|x| Aval::new(x.dtype(), &x.shape()[1..]));
        let avals: Vec<Aval> = avals(&states).chain(of_slices).collect();
        let mut traced = trace_on(&avals, |inputs| {
            let (carry, x) = inputs.split_at(states.len());
            let (carry, y) =
                R::run(|| (self.f)(&with_physical(init, carry), &with_physical(xs, x)))?;
            let next = leaves(&carry);
            check::beside("next state", init, "carry", &next, check::avals(&states))?;
            let outs = next.into_iter().chain(leaves(&y)).collect();
            Ok((outs, (carry, y)))
        })?;
        if self.checkpoint {
            traced.program = checkpointed(traced.program);
        }
        let (carry, y) = traced.y;
        let counts = [turns, traced.captured.len(), states.len()].map(|n| Static::Int(n as i64));
        let [turns, consts, n_states] = counts;
        let body = Programs::new(vec![captured_first(traced.program, avals.len())]);
        let statics = [body.into(), turns, consts, n_states, self.reverse.into()];
        let states = physical(&states);
        let args = traced.captured.iter().chain(&states).chain(&slices);
        let n_outs = states.len() + leaves(&y).len();
        let outs = record_many(Op::Scan, statics, &args.collect::<Vec<_>>(), &[], n_outs)?;
        let (last, ys) = outs.split_at(states.len());
        let place = |(all, y): (&Tensor, &Tensor)| match y.batch_dims() {
            0 => Ok(all.clone()),
            n => catch(|| Ok(all.moveaxis(0, n as isize))),
        };
        let likes = leaves(&y);
        let ys = ys.iter().zip(&likes).map(place);
        let ys = &ys.collect::<Result<Vec<Tensor>>>()?;
        Ok((with_physical(&carry, last), with_physical(&y, ys)))
    }
}

/// Returns the length of the leaves of `xs` along axis 0.
pub(super) fn turns(call: &'static str, xs: &impl Tree, asked: Option<usize>) -> Result<usize> {
    let mut counts = Vec::new();
    for (leaf, path) in leaves(xs).iter().zip(paths(xs, "xs")) {
        match leaf.shape() {
            [] => {
                let aval = leaf.aval().clone();
                return Err(ControlFault::NoSlices { path, aval }.into_error(call));
            }
            [n, ..] => counts.push((path, *n)),
        }
    }
    let n = asked.or_else(|| Some(counts.first()?.1));
    let n = n.ok_or_else(|| ControlFault::NoTurns.into_error(call))?;
    match counts.iter().all(|(_, found)| *found == n) {
        true => Ok(n),
        false => Err(ControlFault::Turns { counts, asked }.into_error(call)),
    }
}

/// Integer type of the range of a [`fori_loop`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an integer type of a loop",
    label = "not an index",
    note = "write a range of `i32`, `i64`, `u32` or `usize`"
)]
pub trait LoopIndex {
    /// Returns the index as an `i64`, or the nearest one.
    fn into_index(self) -> i64;
}

macro_rules! loop_indices {
    ($($ty:ident)*) => {$(
        impl LoopIndex for $ty {
            fn into_index(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }
        }
    )*};
}

loop_indices! { i32 i64 u32 usize }

/// Returns the state after a loop over a range of integers.
///
/// Each turn takes its index, an `i64` of rank 0, and the state, and returns the next state: see [`scan`]. If `f` reads
/// the index, all indices are in memory while the loop runs, 8 bytes for each turn.
///
/// ```
/// # use gradloom::{DType, Tensor, fori_loop};
/// let x = Tensor::from(2.0f32);
/// let power = fori_loop(0..3, |_: &Tensor, y: &Tensor| y * &x, &x.ones_like());
/// assert_eq!(power.item::<f32>(), 8.0);
///
/// let n: usize = 5;
/// let sum = fori_loop(1..n, |i: &Tensor, sum: &Tensor| sum + i, &Tensor::from(0i64));
/// assert_eq!(sum.item::<i64>(), 10);
/// ```
///
/// # Panics
///
/// If `f` changes a shape or dtype of the state, or reads a value. If `f` returns `Result`, these are
/// errors instead.
#[track_caller]
pub fn fori_loop<C, R, F>(range: Range<impl LoopIndex>, f: F, init: &C) -> R::Wrap<C>
where
    C: Tree,
    R: Outcome<Tree = C>,
    F: FnOnce(&Tensor, &C) -> R,
{
    let [start, end] = [range.start, range.end].map(LoopIndex::into_index);
    let turns = usize::try_from(end.saturating_sub(start)).unwrap_or(0);
    let first = Tensor::full([], start, DType::I64);
    let indices = Tensor::arange(turns, DType::I64) + first;
    let turn = |carry: &C, i: &Tensor| Uncaught(R::run(|| f(i, carry)).map(|next| (next, ())));
    let run: Result<(C, ())> = Scan::new(turn).try_call(init, &indices);
    R::wrap(run.map(|(last, _)| last))
}

/// Returns `f` of each slice of the leaves of `xs` along axis 0, one after the other.
///
/// [`vmap`](crate::vmap) computes all slices at once, which is faster and takes more memory.
///
/// ```
/// # use gradloom::{Tensor, map};
/// let xs = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// assert_eq!(map(|x: &Tensor| x.sum(..), &xs).to_vec::<f32>(), [3.0, 7.0]);
/// ```
///
/// # Panics
///
/// If the leaves of `xs` have different lengths along axis 0, or `f` reads a value. If `f` returns
/// `Result`, these are errors instead.
#[track_caller]
pub fn map<X, R, F>(f: F, xs: &X) -> R::Wrap<R::Tree>
where
    X: Tree,
    R: Outcome,
    F: FnOnce(&X) -> R,
{
    let turn = |(): &(), x: &X| Uncaught(R::run(|| f(x)).map(|y| ((), y)));
    let run: Result<((), R::Tree)> = Scan::new(turn).try_call(&(), xs);
    R::wrap(run.map(|(_, ys)| ys))
}

/// Returns the state of a loop that goes on as long as `cond` holds.
///
/// `cond` maps the state to a `bool` of rank 0, and `body` to the next state. Both run once, on values
/// without elements. In reverse mode the loop runs again and tapes its states. The gradient can be
/// differentiated once more in forward mode, as [`hvp`](crate::hvp) and [`hessian`](crate::hessian) do,
/// but not in reverse mode.
///
/// ```
/// # use gradloom::{Tensor, grad, while_loop};
/// // Newton's method.
/// let sqrt = |x: &Tensor| {
///     let (root, _) = while_loop(
///         |(y, last): &(Tensor, Tensor)| (y - last).abs().gt(&(y * 1e-6)),
///         |(y, _): &(Tensor, Tensor)| ((y + x / y) * 0.5, y.clone()),
///         &(x.clone(), x * 2.0),
///     );
///     root
/// };
/// let x = Tensor::from(4.0f64);
/// assert!((sqrt(&x).item::<f64>() - 2.0).abs() < 1e-9);
/// assert!((grad(sqrt)(&x).item::<f64>() - 0.25).abs() < 1e-6);
/// ```
///
/// # Panics
///
/// If the condition is not a `bool` of rank 0, if `body` changes a shape or dtype of the state, or if one
/// of them reads a value. If `body` returns `Result`, these are errors instead.
#[track_caller]
pub fn while_loop<C, R, F>(cond: impl FnOnce(&C) -> Tensor, body: F, init: &C) -> R::Wrap<C>
where
    C: Tree,
    R: Outcome<Tree = C>,
    F: FnOnce(&C) -> R,
{
    R::wrap(try_while_loop(cond, body, init))
}

fn try_while_loop<C, R, F>(cond: impl FnOnce(&C) -> Tensor, body: F, init: &C) -> Result<C>
where
    C: Tree,
    R: Outcome<Tree = C>,
    F: FnOnce(&C) -> R,
{
    let states = leaves(init);
    let avals: Vec<Aval> = avals(&states).collect();
    let cond = trace_on(&avals, |carry| {
        let goes_on = cond(&with_physical(init, carry));
        if *goes_on.aval() != Aval::new(DType::Bool, []) {
            let aval = goes_on.aval().clone();
            return Err(ControlFault::Condition { aval }.into_error("while_loop"));
        }
        Ok((vec![goes_on], ()))
    })?;
    let body = trace_on(&avals, |carry| {
        let next = R::run(|| body(&with_physical(init, carry)))?;
        let outs = leaves(&next);
        check::beside("next state", init, "carry", &outs, check::avals(&states))?;
        Ok((outs, next))
    })?;
    let y = body.y;
    let n = avals.len();
    let traced = vec![
        (cond.program, cond.captured, n),
        (body.program, body.captured, n),
    ];
    let (programs, captured) = together(traced);
    let consts = Static::Int(captured.len() as i64);
    let states = physical(&states);
    let args: Vec<&Tensor> = captured.iter().chain(&states).collect();
    let statics = [Programs::new(programs).into(), consts];
    let outs = record_many(Op::While, statics, &args, &[], states.len())?;
    Ok(with_physical(&y, &outs))
}

/// Returns `then(x)` if the condition is true, and `otherwise(x)` if it is false.
///
/// The condition is a `bool` of rank 0. Both functions run once, on values without elements, and return
/// the same shapes and dtypes. Only the branch that is taken is computed, unless
/// [`vmap`](crate::vmap) batches the condition: then both are computed for all lanes, and each lane selects
/// its results.
///
/// ```
/// # use gradloom::{Tensor, cond, grad};
/// let safe_log = |x: &Tensor| {
///     cond(&x.gt(&x.zeros_like()), |x: &Tensor| x.log(), |x: &Tensor| x.zeros_like(), x)
/// };
/// let x = Tensor::from(0.0f32);
/// assert_eq!(safe_log(&x).item::<f32>(), 0.0);
/// assert_eq!(grad(safe_log)(&x).item::<f32>(), 0.0);
/// ```
///
/// # Panics
///
/// If the condition is not a `bool` of rank 0, if the branches return different shapes or dtypes, or if one
/// of them reads a value. If they return `Result`, these are errors instead.
#[track_caller]
pub fn cond<X, R>(
    condition: &Tensor,
    then: impl FnOnce(&X) -> R,
    otherwise: impl FnOnce(&X) -> R,
    x: &X,
) -> R::Wrap<R::Tree>
where
    X: Tree,
    R: Outcome,
{
    let run = || {
        if *condition.aval() != Aval::new(DType::Bool, []) {
            let aval = condition.aval().clone();
            return Err(ControlFault::Condition { aval }.into_error("cond"));
        }
        let branches: [Branch<'_, X, R>; 2] = [Box::new(otherwise), Box::new(then)];
        try_switch(condition, branches, x)
    };
    R::wrap(run())
}

/// Returns the result of one of several functions of `x`, chosen by an index.
///
/// The index is an integer of rank 0. One below 0 chooses the first function, one that is too large the
/// last. See [`cond`].
///
/// ```
/// # use gradloom::{Tensor, switch};
/// let double = |x: &Tensor| x * 2.0;
/// let square = |x: &Tensor| x.square();
/// let x = Tensor::from([3.0f32]);
/// assert_eq!(switch(&Tensor::from(1i32), &[&double, &square], &x).to_vec::<f32>(), [9.0]);
/// ```
///
/// # Panics
///
/// If there is no function, if the index is not an integer of rank 0, if the functions return different
/// shapes or dtypes, or if one of them reads a value. If they return `Result`, these are errors instead.
#[track_caller]
pub fn switch<X, R>(index: &Tensor, branches: &[&dyn Fn(&X) -> R], x: &X) -> R::Wrap<R::Tree>
where
    X: Tree,
    R: Outcome,
{
    let run = || {
        if !index.physical_shape().is_empty() || !matches!(index.dtype(), DType::I32 | DType::I64) {
            let aval = index.aval().clone();
            return Err(ControlFault::Index { aval }.into_error("switch"));
        }
        try_switch(index, branches, x)
    };
    R::wrap(run())
}

/// A function that `cond` may choose.
type Branch<'a, X, R> = Box<dyn FnOnce(&X) -> R + 'a>;

fn try_switch<X, R, F>(
    index: &Tensor,
    branches: impl IntoIterator<Item = F>,
    x: &X,
) -> Result<R::Tree>
where
    X: Tree,
    R: Outcome,
    F: FnOnce(&X) -> R,
{
    let operands = leaves(x);
    let avals: Vec<Aval> = avals(&operands).collect();
    let mut first: Option<(R::Tree, Vec<Tensor>)> = None;
    let mut traced = Vec::new();
    for branch in branches {
        let one = trace_on(&avals, |inputs| {
            let y = R::run(|| branch(&with_physical(x, inputs)))?;
            let outs = leaves(&y);
            if let Some((like, expected)) = &first {
                check::beside("branch", like, "result", &outs, check::avals(expected))?;
            }
            Ok((outs, y))
        })?;
        if first.is_none() {
            let outs = leaves(&one.y);
            first = Some((one.y, outs));
        }
        traced.push((one.program, one.captured, avals.len()));
    }
    let Some((y, outs)) = first else {
        return Err(ControlFault::NoBranches.into_error("switch"));
    };
    let (programs, captured) = together(traced);
    let operands = physical(&operands);
    let args: Vec<&Tensor> = [index]
        .into_iter()
        .chain(&captured)
        .chain(&operands)
        .collect();
    let statics = [Programs::new(programs).into()];
    let outs = record_many(Op::Switch, statics, &args, &[], outs.len())?;
    Ok(with_physical(&y, &outs))
}

/// Returns a function with the values of `f`, whose pullback keeps only the argument.
///
/// The pullback computes the intermediate values of `f` again, which takes less memory and more time. See
/// [`Checkpoint`] for one that keeps some of them.
///
/// ```
/// # use gradloom::{Tensor, checkpoint, grad};
/// let block = checkpoint(|x: &Tensor| x.sin().exp());
/// let x = Tensor::from([0.0f32]);
/// assert_eq!(grad(|x: &Tensor| block(x).sum(..))(&x).to_vec::<f32>(), [1.0]);
/// ```
///
/// # Panics
///
/// The returned function panics if `f` reads a value. If `f` returns `Result`, this is an error instead.
#[track_caller]
pub fn checkpoint<X, R, F>(f: F) -> impl Fn(&X) -> R::Wrap<R::Tree>
where
    X: Tree,
    R: Outcome,
    F: Fn(&X) -> R,
{
    let block = Checkpoint::new(f);
    move |x: &X| block.call(x)
}

/// A function whose pullback computes intermediate values again, except those of chosen ops: see [`checkpoint`].
///
/// ```
/// # use gradloom::{Checkpoint, Tensor, grad};
/// let w = Tensor::from([[1.0f32, 2.0], [0.0, 1.0]]);
/// // The products are kept, and what follows each of them is computed again.
/// let block = Checkpoint::new(|x: &Tensor| x.matmul(&w).tanh().matmul(&w).exp()).keep(&["matmul"]);
/// let x = Tensor::from([[0.0f32, 0.0]]);
/// let slope = grad(|x: &Tensor| block.call(x).sum(..))(&x);
/// assert_eq!(slope.to_vec::<f32>(), [5.0, 1.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoint<F> {
    f: F,
    keep: Vec<&'static str>,
    made: TransformSite,
}

impl<F> Checkpoint<F> {
    /// Returns the function whose pullback keeps only the argument.
    #[track_caller]
    pub fn new(f: F) -> Checkpoint<F> {
        Checkpoint {
            f,
            keep: Vec::new(),
            made: TransformSite::by("checkpoint"),
        }
    }

    /// Keeps the results of the ops with these names, as a program prints them. A product of a tensor and a
    /// matrix is a `matmul`.
    pub fn keep(mut self, ops: &[&'static str]) -> Checkpoint<F> {
        self.keep.extend(ops);
        self
    }

    /// Returns the result of the function.
    ///
    /// # Panics
    ///
    /// If the function reads a value, or if a name to keep is not that of an op. If the function returns `Result`,
    /// these are errors instead.
    pub fn call<X, R>(&self, x: &X) -> R::Wrap<R::Tree>
    where
        X: Tree,
        R: Outcome,
        F: Fn(&X) -> R,
    {
        R::wrap_made(self.try_call(x), self.made)
    }

    fn try_call<X, R>(&self, x: &X) -> Result<R::Tree>
    where
        X: Tree,
        R: Outcome,
        F: Fn(&X) -> R,
    {
        let is_op = |name: &&'static str| Op::from_name(name).is_some();
        if let Some(name) = self.keep.iter().find(|name| !is_op(name)) {
            return Err(ControlFault::NoOp { name }.into_error("checkpoint"));
        }
        let Traced {
            mut program,
            captured,
            y,
        } = trace(&self.f, x)?;
        let n_outs = program.outs.len();
        let kept = program
            .eqns
            .iter()
            .filter(|eqn| self.keep.contains(&eqn.op.def().name()));
        let kept: Vec<Var> = kept.flat_map(|eqn| eqn.outs.to_vec()).collect();
        program.outs.extend(&kept);
        let operands = physical(&leaves(x));
        let args: Vec<&Tensor> = operands.iter().chain(&captured).collect();
        let statics = [
            Programs::new(vec![program]).into(),
            Static::Int(kept.len() as i64),
        ];
        let outs = record_many(Op::Checkpoint, statics, &args, &[], n_outs)?;
        Ok(with_physical(&y, &outs))
    }
}

/// Traces a function on stand-ins for the leaves of `x`.
pub(crate) fn trace<X: Tree, R: Outcome>(
    f: impl FnOnce(&X) -> R,
    x: &X,
) -> Result<Traced<R::Tree>> {
    let operands: Vec<Aval> = avals(&leaves(x)).collect();
    trace_on(&operands, |inputs| {
        let y = R::run(|| f(&with_physical(x, inputs)))?;
        Ok((leaves(&y), y))
    })
}

/// Returns the avals of the physical tensors.
pub(super) fn avals(tensors: &[Tensor]) -> impl Iterator<Item = Aval> {
    tensors.iter().map(|x| x.physical().aval().clone())
}

/// Returns the tensors without their batch prefixes.
pub(crate) fn physical(tensors: &[Tensor]) -> Vec<Tensor> {
    tensors.iter().map(Tensor::physical).collect()
}

/// A function as a program, `inputs..., captured... -> results...`.
pub(crate) struct Traced<Y> {
    pub(crate) program: Program,
    pub(crate) captured: Vec<Tensor>,
    pub(crate) y: Y,
}

/// Traces a function on values without elements. It returns the results and something else.
pub(super) fn trace_on<Y>(
    avals: &[Aval],
    f: impl FnOnce(&[Tensor]) -> Result<(Vec<Tensor>, Y)>,
) -> Result<Traced<Y>> {
    let scope = ScopeGuard::open();
    let since = seq_no_of_all();
    let inputs = stand_ins(avals, &scope);
    let untraced = UntracedGuard::new();
    let (outs, y) = f(&inputs)?;
    drop(untraced);
    let part = cut_body(&inputs, since, &outs)?;
    drop(scope);
    events::emit(Event::Traced {
        equations: part.program.eqns.len(),
    });
    let (program, captured) = without_shapes(part, inputs.len());
    Ok(Traced {
        program,
        captured,
        y,
    })
}

/// Returns the part of the graph from the inputs of a body to its results.
///
/// # Errors
///
/// If only a rule for all lanes can compute a value of the body.
pub(super) fn cut_body(inputs: &[Tensor], since: u64, outs: &[Tensor]) -> Result<GraphPart> {
    let part = cut(inputs, since, outs, true);
    let program = &part.program;
    let customs = program.eqns.iter().filter(|eqn| eqn.op == Op::Custom);
    let mut rules = customs.filter_map(|eqn| rules_of(slice::from_ref(program.attr(eqn.attrs[0]))));
    match rules.find(|rules| rules.is_of_lanes()) {
        Some(rules) => Err(CustomFault::InBody.into_error(rules.name())),
        None => Ok(part),
    }
}

/// Returns the program of a part of the graph, and the values that it captures. Its first parameters are `n_inputs`
/// inputs.
pub(crate) fn without_shapes(part: GraphPart, n_inputs: usize) -> (Program, Vec<Tensor>) {
    let captured = part.captured;
    let mut program = part.program.into_program();
    // Values of which only the shape is read are constants of the program.
    let shapes = captured.iter().zip(&program.params[n_inputs..]);
    let shapes: Vec<_> = shapes
        .filter_map(|(bound, param)| match bound {
            Bound::Aval(aval) => Some((*param, aval.clone())),
            Bound::Tensor(_) => None,
        })
        .collect();
    program
        .params
        .retain(|param| !shapes.iter().any(|(shape, _)| shape == param));
    let mut program = pass::simplify(with_shapes(program, &shapes));
    // Some values are read by other captured values only.
    let args = program.eqns.iter().flat_map(|eqn| &eqn.args);
    let read: BTreeSet<Var> = args.chain(&program.outs).copied().collect();
    let tensors = captured.into_iter().filter_map(Bound::into_tensor);
    let params = program.params.split_off(n_inputs);
    let pairs = params.into_iter().zip(tensors);
    let (params, captured): (Vec<Var>, _) = pairs.filter(|(var, _)| read.contains(var)).unzip();
    program.params.extend(params);
    (program, captured)
}

/// Returns a program in which some variables are constants of a known shape.
fn with_shapes(program: Program, shapes: &[(Var, Aval)]) -> Program {
    if shapes.is_empty() {
        return program;
    }
    let mut b = Builder::after(&program);
    for (var, aval) in shapes {
        let lens: Vec<i64> = aval.shape().iter().map(|len| *len as i64).collect();
        let attrs = [b.attr(lens), b.attr(0), b.attr(aval.dtype())];
        b.append(gradloom_ir::Eqn {
            outs: [*var].into(),
            op: Op::Full,
            attrs: attrs.into(),
            args: [].into(),
        });
    }
    program.eqns.iter().for_each(|eqn| b.append(eqn.clone()));
    b.finish(program.params, program.outs)
}

/// Moves the parameters for captured values before the `n_inputs` others.
fn captured_first(mut program: Program, n_inputs: usize) -> Program {
    program.params.rotate_left(n_inputs);
    program
}

/// Returns programs that all take the values that any of them captures, and then their inputs.
///
/// Each is given with the values that it captures and the number of its inputs.
pub(super) fn together(traced: Vec<(Program, Vec<Tensor>, usize)>) -> (Vec<Program>, Vec<Tensor>) {
    let mut all: Vec<Tensor> = Vec::new();
    let same = |a: &Tensor, b: &Tensor| Shared::ptr_eq(&a.0, &b.0);
    for captured in traced.iter().flat_map(|(_, captured, _)| captured) {
        if !all.iter().any(|known| same(known, captured)) {
            all.push(captured.clone());
        }
    }
    let programs = traced.into_iter().map(|(program, captured, n_inputs)| {
        let mut b = Builder::after(&program);
        program.eqns.iter().for_each(|eqn| b.append(eqn.clone()));
        let (inputs, own) = program.params.split_at(n_inputs);
        let param = |x| match captured.iter().position(|known| same(known, x)) {
            Some(i) => own[i],
            None => b.param(x.aval().to_ir()),
        };
        let params: Vec<_> = all.iter().map(param).collect();
        b.finish([&params, inputs].concat(), program.outs)
    });
    (programs.collect(), all)
}

/// Returns a program that runs another one as a checkpoint.
fn checkpointed(program: Program) -> Program {
    let mut b = Builder::new();
    let params: Vec<_> = program
        .params
        .iter()
        .map(|param| b.param(program.aval(*param).clone()))
        .collect();
    let n_outs = program.outs.len();
    let attrs = [b.attr(Programs::new(vec![program])), b.attr(0)];
    let outs = b.emit_many(Op::Checkpoint, &attrs, &params, n_outs);
    b.finish(params, outs)
}
