//! Evaluation: computes the elements of promises.

use crate::cache::Cache;
use crate::call::{self, CallNode};
use crate::events::{self, Event};
use crate::graph::{Graph, Results};
use crate::node::{self, Edges, Look, Shared};
use crate::plan::{Given, Leaves};
use crate::{Result, Tensor, Tree};
use gradloom_kernels::fork::{self, get_or_init};
use gradloom_kernels::task::Leaf;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// State that evaluations share, behind one lock.
///
/// Walks need the lock to follow edges and to stamp values, look-ups need it for the cache. Plans
/// are made and run without it.
pub(crate) struct Engine {
    pub(crate) edges: Edges,
    epoch: u64,
    pub(crate) cache: Cache,
}

static ENGINE: OnceLock<Mutex<Engine>> = OnceLock::new();

impl Engine {
    pub(crate) fn lock() -> MutexGuard<'static, Engine> {
        let engine = get_or_init(&ENGINE, || {
            fork::set_outer_lock(|| Box::new(Engine::lock()));
            Mutex::new(Engine {
                edges: Edges::new(),
                epoch: 0,
                cache: Cache::new(),
            })
        });
        // A walk that panicked leaves stamps of its own epoch, which no later walk uses.
        engine.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the epoch for the next walk.
    pub(crate) fn next_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }
}

/// Argument of [`evaluate`] and [`explain`]: a tree of tensors, or several.
///
/// It is a reference to a tree, or a tuple of such references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reference to a tree of tensors, nor a tuple of such references",
    note = "write `evaluate(&model)` or `evaluate((&model, &loss))`"
)]
pub trait Targets {
    /// Calls `f` with each tensor.
    #[doc(hidden)]
    fn visit(&self, f: &mut dyn FnMut(&Tensor));
}

impl<T: Tree> Targets for &T {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        T::visit(self, f);
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: Targets),*> Targets for ($($name,)*) {
            #[allow(non_snake_case)]
            fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
                let ($($name,)*) = self;
                $($name.visit(f);)*
            }
        }
    )*};
}
tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) (A B C D E F G) (A B C D E F G H) }

/// Computes tensors together, in one plan. Realised tensors are not computed again.
///
/// Reading a tensor ([`Tensor::item`](crate::Tensor::item),
/// [`Tensor::to_vec`](crate::Tensor::to_vec), printing) also computes it, along with every value it
/// depends on that the program still holds. A loop that reads its loss at each step therefore does
/// not need `evaluate`. Use it where several independent results share work, or to control when
/// work is done, for example before reading a clock.
///
/// ```
/// use gradloom::{Tensor, evaluate};
///
/// let x = Tensor::from([1.0f32, 2.0, 3.0]);
/// let (y, z) = (x.tanh(), x.tanh() * 2.0);
/// evaluate((&y, &z))?;
/// assert!(y.is_realised() && z.is_realised());
/// # Ok::<(), gradloom::Error>(())
/// ```
///
/// # Errors
///
/// If the data is not valid for an op, such as a label that is not a class, or if memory is short.
/// Values that could not be computed stay promises, and the evaluation can be retried.
pub fn evaluate(targets: impl Targets) -> Result<()> {
    call::impure();
    let mut recorded = Recorded::new();
    let mut called = Ok(());
    targets.visit(&mut |leaf| {
        if called.is_ok()
            && let Err(error) = run_call(&leaf.0, &mut recorded)
        {
            called = Err(error);
        }
    });
    called?;
    compute(recorded)
}

/// Describes how [`evaluate`] would compute all tensors of a tree together, without computing them.
///
/// The text lists the tasks of the plan in order: the ops that run in one loop, the operands and
/// results of each task, its arithmetic, and the memory that intermediate values share. Pending
/// calls of traced functions that these tensors depend on come first, each with its own plan.
///
/// The text is for people; its format may change between versions.
///
/// ```
/// use gradloom::{Tensor, explain};
///
/// let x = Tensor::from([1.0f32, 2.0, 3.0]);
/// let y = (x.tanh() * 2.0).sum(..);
/// assert!(explain(&y).contains("loop of 3 (tanh, mul, sum)"), "{}", explain(&y));
/// ```
pub fn explain(targets: impl Targets) -> String {
    let (mut recorded, mut calls) = (Recorded::new(), Vec::new());
    targets.visit(&mut |leaf| match leaf.0.look() {
        Look::Here(_) => {}
        Look::Op => recorded.push(leaf.0.clone()),
        Look::Call(_) => calls.push(leaf.0.clone()),
    });
    let mut texts = call::explain(calls, recorded);
    if texts.is_empty() {
        texts.push(Graph::unseen(&[], Results::Targets).explain());
    }
    texts.join("\n")
}

/// Computes values that were not realised when the caller looked.
pub(crate) fn realise(targets: &[Shared]) -> Result<()> {
    call::impure();
    let mut recorded = Recorded::new();
    for target in targets {
        run_call(target, &mut recorded)?;
    }
    compute(recorded)
}

fn compute(recorded: Recorded) -> Result<()> {
    match recorded.is_empty() {
        true => Ok(()),
        false => call::run_ops(recorded),
    }
}

/// Pending results of ops.
pub(crate) type Recorded = SmallVec<[Shared; 4]>;

/// Computes a value that a call promises. Adds a value that an op promises to `recorded`.
fn run_call(target: &Shared, recorded: &mut Recorded) -> Result<()> {
    loop {
        match target.look() {
            Look::Here(_) => return Ok(()),
            Look::Call(node) => call::run(node)?,
            Look::Op => {
                recorded.push(target.clone());
                return Ok(());
            }
        }
    }
}

/// Computes pending results of ops, or returns the pending calls that have to run first.
pub(crate) fn run_ops(recorded: &[Shared]) -> Result<SmallVec<[Arc<CallNode>; 2]>> {
    let graph = Graph::of(recorded, Results::TargetsAndHeld);
    let pending = graph.leaves.iter().filter_map(|leaf| match leaf.look() {
        Look::Call(node) => Some(node),
        Look::Here(_) | Look::Op => None,
    });
    let pending: SmallVec<[_; 2]> = pending.collect();
    if !pending.is_empty() {
        return Ok(pending);
    }
    match run_graph(recorded, &graph) {
        // Held values were not requested, so a failure to compute them is not an error.
        Err(_) if !graph.held.is_empty() => {
            drop(graph);
            run_graph(recorded, &Graph::of(recorded, Results::Targets))?;
        }
        ran => ran?,
    }
    Ok(SmallVec::new())
}

/// Computes the results of a graph: its targets and the held values.
fn run_graph(targets: &[Shared], graph: &Graph) -> Result<()> {
    let entry = graph.plan();
    let leaves = graph.leaves.iter().map(elements);
    let mut buffers = call::no_results();
    let leaves = leaves.collect::<Result<Leaves<'_>>>()?;
    entry.plan.run(&leaves, &mut Given::new(), &mut buffers)?;
    events::emit(Event::Ran { plan: entry.id });
    let results = buffers.drain(..);
    let results = results.map(|buffer| buffer.expect("no result has been taken yet"));
    node::realise(targets.iter().chain(&graph.held).zip(results));
    call::spare_results(buffers);
    Ok(())
}

/// Returns the elements of a leaf. Runs the call that promises them, if there is one.
fn elements(leaf: &Shared) -> Result<Leaf<'_>> {
    loop {
        match leaf.look() {
            Look::Here(buffer) => return Ok(Leaf::Held(buffer)),
            Look::Call(node) => call::run(node)?,
            Look::Op => unreachable!("a walk continues through pending ops"),
        }
    }
}
