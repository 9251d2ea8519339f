//! Evaluation: from promises to elements.

use crate::cache::Cache;
use crate::call::{self, CallNode};
use crate::events::{self, Event};
use crate::graph::{Graph, Results};
use crate::kernel::Leaf;
use crate::node::{self, Edges, Look, Shared};
use crate::plan::{Given, Leaves};
use crate::{Result, Tensor, Tree};
use smallvec::SmallVec;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

/// What evaluations share. Walks need the lock for edges and for the stamps on values, and look-ups for the cache; plans are
/// made and run without it.
pub(crate) struct Engine {
    pub(crate) edges: Edges,
    epoch: u64,
    pub(crate) cache: Cache,
}

static ENGINE: LazyLock<Mutex<Engine>> = LazyLock::new(|| {
    Mutex::new(Engine {
        edges: Edges::new(),
        epoch: 0,
        cache: Cache::new(),
    })
});

impl Engine {
    pub(crate) fn lock() -> MutexGuard<'static, Engine> {
        // A walk that panicked has left stamps of an epoch that no other walk has.
        ENGINE.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// An epoch for one walk.
    pub(crate) fn next_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }
}

/// What [`evaluate`] and [`explain`] take: a reference to a tree of tensors, or a tuple of such references.
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

/// Computes tensors together, in one plan. What has been computed before stays as it is.
///
/// Reading a tensor ([`Tensor::item`](crate::Tensor::item), [`Tensor::to_vec`](crate::Tensor::to_vec), printing) computes it, too, and with it
/// whatever it is computed from and something still holds. So a loop that reads its loss at each step needs no `evaluate`. It helps
/// where several results that do not depend on each other share work, because they are then made by one plan, and to decide when work is done,
/// for example before a clock is read.
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
/// If the data is not what an op takes, such as a label that is no class, or if memory is short. Then what has
/// failed stays a promise, and the evaluation can be tried again.
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

/// Says how [`evaluate`] would compute all tensors of a tree together, as text: the tasks of the plan in order, with the ops
/// that run in one loop, what each reads and writes and how much arithmetic it does, and how much memory the intermediate
/// values share. Nothing is computed.
/// Calls of traced functions that come first have plans of their own.
///
/// The text is for people, and may be another in the next version.
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

/// Computes values, of which none was realised a moment ago.
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

/// The values that ops promise, of those that are asked for.
pub(crate) type Recorded = SmallVec<[Shared; 4]>;

/// Computes a value that a call promises. One that an op promises is added to a list.
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

/// Computes values that ops promise, unless calls have to run first: then it is these.
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
        // What nobody has asked for now is no reason to fail.
        Err(_) if !graph.held.is_empty() => {
            drop(graph);
            run_graph(recorded, &Graph::of(recorded, Results::Targets))?;
        }
        ran => ran?,
    }
    Ok(SmallVec::new())
}

/// Computes the results of a graph: its targets, and values that something else holds.
fn run_graph(targets: &[Shared], graph: &Graph) -> Result<()> {
    let entry = graph.plan();
    let leaves = graph.leaves.iter().map(elements);
    let mut buffers = call::no_results();
    let leaves = leaves.collect::<Result<Leaves<'_>>>()?;
    entry.plan.run(&leaves, &mut Given::new(), &mut buffers)?;
    events::emit(Event::Ran { plan: entry.id });
    let results = buffers.drain(..);
    let results = results.map(|buffer| buffer.expect("nobody has taken a result"));
    node::realise(targets.iter().chain(&graph.held).zip(results));
    call::spare_results(buffers);
    Ok(())
}

/// The elements of a leaf.
fn elements(leaf: &Shared) -> Result<Leaf<'_>> {
    loop {
        match leaf.look() {
            Look::Here(buffer) => return Ok(Leaf::Held(buffer)),
            Look::Call(node) => call::run(node)?,
            Look::Op => unreachable!("a graph goes on where an op is"),
        }
    }
}
