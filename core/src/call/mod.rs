//! Calls: one node for a whole function, whose plan is known before it is called.
//!
//! A function that computes the same ops whenever its arguments have the same shapes, structure and static values has
//! a [`Site`], which knows the plans of the calls before. A call that finds its plan there records nothing: its
//! results are promises of one [`CallNode`], which runs the plan for all of them when one is asked for.

mod callable;
mod checks;
pub(crate) mod facts;
mod function;
pub(crate) mod hash;
mod key;
pub(crate) mod known;
mod partial;
mod pullback;
mod site;
mod whole;

pub use checks::{check_every_call, check_no_call};
pub use function::{Function, Param};
pub(crate) use function::{Record, Summary, Why, measure, summaries};
pub use key::{
    ByClone, BySize, ByTree, ByWords, CallKey, Mutable, NoTree, OwnedBytes, OwnedWords, Same,
    Static, Unknown, Words, argument_fits, global_fits, kept_by_site,
};
pub(crate) use pullback::stand_in;
pub use pullback::{Cotangents, Pullback};
pub use site::{Recording, Results, Site, begin, impure_call, names, recorded, recorded_impure};
pub(crate) use site::{impure, is_recording};
pub use whole::{NoShape, NoWhole, OfWhole, ShapeOfTree, Whole, unkept};

use crate::buffer::Buffer;
use crate::cache::Entry;
use crate::evaluate::{self, Recorded};
use crate::events::{self, Event};
use crate::fork;
use crate::graph::{self, Graph};
use crate::kernel::Leaf;
use crate::node::{self, Look, Shared, Value, release};
use crate::plan::{self, Given, Leaves};
use crate::spare::{self, Spare};
use crate::{Error, Result};
use function::Timer;
use partial::Parts;
use smallvec::{SmallVec, smallvec};
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The plan of calls that are alike.
pub(crate) struct CallPlan {
    entry: Arc<Entry>,
    /// Which argument each leaf of the plan is.
    leaves: Box<[u32]>,
    /// Whether the plan takes no longer than it takes to promise its results and to ask for them.
    is_small: bool,
    /// The plans for some of the results.
    parts: Parts,
    /// The function whose time it takes.
    function: Option<Arc<Record>>,
}

/// A plan whose tasks read and write up to so many elements is small.
const SMALL: usize = 8 << 10;

impl CallPlan {
    fn new(entry: Arc<Entry>, leaves: Box<[u32]>, function: Option<Arc<Record>>) -> CallPlan {
        let is_small = entry.plan.traffic() <= SMALL;
        CallPlan {
            entry,
            leaves,
            is_small,
            parts: Parts::default(),
            function,
        }
    }

    /// A clock that runs while the plan does, if calls are measured.
    #[inline]
    fn timer(&self) -> Option<Timer> {
        self.function.as_ref()?.timer()
    }

    fn n_results(&self) -> usize {
        self.entry.plan.n_results()
    }

    /// The results, if the arguments are realised. An error is that of who asks for the results: there are none.
    fn run_on<'a>(&self, arg: impl Fn(usize) -> &'a Shared) -> Option<Vec<Option<Arc<Buffer>>>> {
        let mut leaves = Leaves::new();
        for leaf in &self.leaves {
            leaves.push(Leaf::Held(arg(*leaf as usize).settle()?));
        }
        let mut results = no_results();
        let _timer = self.timer();
        match self
            .entry
            .plan
            .run(&leaves, &mut Given::new(), &mut results)
        {
            Ok(()) => {
                let plan = self.entry.id;
                events::emit(Event::Ran { plan });
                Some(results)
            }
            Err(_) => {
                spare_results(results);
                None
            }
        }
    }
}

/// A call that has not run, or its results.
pub(crate) struct CallNode {
    /// It is there unless the node waits for its next use.
    plan: Option<Arc<CallPlan>>,
    /// Length of the longest chain of pending ops and calls that ends here.
    depth: u32,
    /// Whether it has run, for those who do not want to wait while another thread runs the plan.
    done: AtomicBool,
    /// The generation of the process in which it was run last.
    generation: AtomicU32,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The arguments, until it has run: values that are realised or that other calls compute.
    args: Vec<Shared>,
    /// The results, once it has run, that nobody has taken yet.
    results: Vec<Option<Arc<Buffer>>>,
    /// The results that were dropped before it has run.
    dropped: Vec<u32>,
}

thread_local! {
    /// Calls that nobody holds any more.
    static NODES: Spare<Arc<CallNode>> = const { RefCell::new(Vec::new()) };
    /// Memory for the results of calls.
    static RESULTS: Spare<Vec<Option<Arc<Buffer>>>> = const { RefCell::new(Vec::new()) };
    /// Memory for the arguments of calls.
    static ARGS: Spare<Vec<Shared>> = const { RefCell::new(Vec::new()) };
}

/// Memory for results.
pub(crate) fn no_results() -> Vec<Option<Arc<Buffer>>> {
    spare::take(&RESULTS).unwrap_or_default()
}

/// Lets results wait for their next use that nobody has taken, and their list.
pub(crate) fn spare_results(mut results: Vec<Option<Arc<Buffer>>>) {
    results.drain(..).flatten().for_each(spare::let_go);
    if results.capacity() > 0 {
        spare::keep(&RESULTS, results);
    }
}

/// Memory for the arguments of a call.
fn no_args() -> Vec<Shared> {
    spare::take(&ARGS).unwrap_or_else(|| Vec::with_capacity(16))
}

/// Drops arguments.
fn let_go_of(mut args: Vec<Shared>) {
    args.drain(..).for_each(node::let_go);
    if args.capacity() > 0 {
        spare::keep(&ARGS, args);
    }
}

impl CallNode {
    fn new(plan: Arc<CallPlan>, args: Vec<Shared>) -> Arc<CallNode> {
        let mut node = spare::take(&NODES).unwrap_or_else(|| {
            Arc::new(CallNode {
                plan: None,
                depth: 0,
                done: AtomicBool::new(false),
                generation: AtomicU32::new(0),
                state: Mutex::default(),
            })
        });
        let only = Arc::get_mut(&mut node).expect("nobody else has a call that waits");
        only.plan = Some(plan);
        let depths = args.iter().map(|arg| arg.depth());
        only.depth = depths.max().unwrap_or(0).saturating_add(1);
        only.state_mut().args = args;
        node
    }

    fn plan(&self) -> &CallPlan {
        self.plan.as_ref().expect("a call in use has a plan")
    }

    /// The state, if nobody runs the call who was left behind when the process was forked. After the panic of a kernel the call has
    /// not run.
    fn state(&self) -> Result<MutexGuard<'_, State>> {
        let runs_here = || self.generation.load(Ordering::Relaxed) == fork::generation();
        fork::lock(&self.state, runs_here).ok_or(Error::Forked)
    }

    fn state_mut(&mut self) -> &mut State {
        self.state.get_mut().unwrap_or_else(|e| e.into_inner())
    }

    /// Length of the longest chain of pending ops and calls that ends here, or 0 once it has run.
    pub(crate) fn depth(&self) -> u32 {
        match self.is_done() {
            true => 0,
            false => self.depth,
        }
    }

    /// Whether the results have been computed.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// A result, if it has been computed. The value that is this result takes it once.
    pub(crate) fn take(&self, index: usize) -> Option<Arc<Buffer>> {
        match self.is_done() {
            true => self.state().expect(fork::LOCKED).results[index].take(),
            false => None,
        }
    }

    /// What the plan does, for people.
    fn explain(&self) -> String {
        let part = self.state().ok().and_then(|mut state| {
            state.dropped.sort_unstable();
            self.plan().without(&state.dropped)
        });
        let entry = part.as_ref().map_or(&self.plan().entry, |part| &part.entry);
        entry.explain()
    }

    /// Runs the plan, unless other work has to be done first: then it is that. `n_there` leaves have been found to be there.
    ///
    /// Threads that ask for one call wait for each other here. Who waits holds the locks of calls that depend on this one
    /// alone, so none waits for itself.
    fn advance(&self, n_there: &mut usize) -> Result<Option<Work>> {
        let mut guard = self.state()?;
        if self.is_done() {
            return Ok(None);
        }
        self.generation.store(fork::generation(), Ordering::Relaxed);
        let state = &mut *guard;
        let plan = self.plan();
        for leaf in &plan.leaves[*n_there..] {
            match state.args[*leaf as usize].look() {
                Look::Here(_) => *n_there += 1,
                Look::Call(node) => return Ok(Some(Work::Call(node, 0))),
                Look::Op => {
                    // All at once, because they may share ops.
                    let args = plan.leaves[*n_there..].iter();
                    let args = args.map(|leaf| &state.args[*leaf as usize]);
                    let ops = args.filter(|arg| matches!(arg.look(), Look::Op));
                    return Ok(Some(Work::Ops(ops.cloned().collect())));
                }
            }
        }
        state.dropped.sort_unstable();
        let part = plan.without(&state.dropped);
        let entry = part.as_ref().map_or(&plan.entry, |part| &part.entry);
        // What nobody else holds becomes a result.
        let mut given = plan::given(entry.plan.gifts(), |leaf| {
            let arg = &mut state.args[plan.leaves[leaf] as usize];
            Shared::get_mut(arg).and_then(Value::give_up)
        });
        let mut gifts = given.iter().map(|(gift, _)| gift).peekable();
        let there = |(i, leaf): (usize, &u32)| {
            if let Some(gift) = gifts.next_if(|gift| gift.leaf == i) {
                return Leaf::Given(gift.result);
            }
            let elements = state.args[*leaf as usize].settle();
            Leaf::Held(elements.expect("the elements of a leaf were there a moment ago"))
        };
        let leaves: Leaves<'_> = plan.leaves.iter().enumerate().map(there).collect();
        let timer = plan.timer();
        let ran = entry.plan.run(&leaves, &mut given, &mut state.results);
        drop(timer);
        drop(leaves);
        for (gift, buffer) in given {
            let arg = &mut state.args[plan.leaves[gift.leaf] as usize];
            let arg = Shared::get_mut(arg).expect("nobody else has what was given");
            arg.take_back(buffer);
        }
        ran?;
        if let Some(part) = &part {
            let mut found = std::mem::replace(&mut state.results, no_results());
            state.results.resize(plan.n_results(), None);
            for (i, buffer) in part.results.iter().zip(found.drain(..)) {
                state.results[*i as usize] = buffer;
            }
            spare_results(found);
        }
        let args = std::mem::take(&mut state.args);
        self.done.store(true, Ordering::Release);
        // Dropping arguments may drop much else, which is not done under the lock.
        drop(guard);
        let_go_of(args);
        events::emit(Event::Ran { plan: entry.id });
        Ok(None)
    }
}

/// Lets a call that others do not have wait for its next use. What it was to be computed from is added to a list.
pub(crate) fn let_go(mut node: Arc<CallNode>, pending: &mut Vec<Shared>) {
    if Arc::strong_count(&node) > 1 {
        return;
    }
    let Some(only) = Arc::get_mut(&mut node) else {
        return;
    };
    only.plan = None;
    *only.done.get_mut() = false;
    let state = only.state_mut();
    state.dropped.clear();
    pending.append(&mut state.args);
    let args = std::mem::take(&mut state.args);
    let results = state.results.drain(..).flatten();
    results.for_each(spare::let_go);
    let_go_of(args);
    spare::keep(&NODES, node);
}

/// The same for a value that is this result and has not taken it.
pub(crate) fn forget(node: Arc<CallNode>, index: usize, pending: &mut Vec<Shared>) {
    if let Some(buffer) = node.take(index) {
        spare::let_go(buffer);
    } else if let Ok(mut state) = node.state.try_lock() {
        // Who runs the call at this moment computes the result all the same.
        state.dropped.push(index as u32);
    }
    let_go(node, pending);
}

impl fmt::Debug for CallNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallNode")
            .field("plan", &self.plan.as_ref().map(|plan| plan.entry.id))
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}

impl Drop for CallNode {
    fn drop(&mut self) {
        release(std::mem::take(&mut self.state_mut().args));
    }
}

/// Length of a chain of pending calls that is run although nobody has asked for a result, so that a loop that reads no value takes
/// a bounded amount of memory.
const MAX_PENDING_CALLS: u32 = 256;

/// Runs a call at the end of a chain of [`MAX_PENDING_CALLS`].
fn bound_pending(call: &Arc<CallNode>) {
    if call.depth.is_multiple_of(MAX_PENDING_CALLS) {
        // A call that cannot be run stays a promise. Who asks for a result gets the error.
        let _ = run(call.clone());
    }
}

/// Work that other work may have to wait for.
enum Work {
    /// A call, and the number of its leaves that have been found to be there.
    Call(Arc<CallNode>, usize),
    /// Values that ops promise.
    Ops(Recorded),
}

/// Computes the results of a call, after everything that it depends on.
pub(crate) fn run(call: Arc<CallNode>) -> Result<()> {
    work(Work::Call(call, 0))
}

/// Computes values that ops promise, after the calls that they depend on.
pub(crate) fn run_ops(values: Recorded) -> Result<()> {
    work(Work::Ops(values))
}

/// A long chain of calls and ops is run by a loop.
fn work(first: Work) -> Result<()> {
    let mut stack: SmallVec<[Work; 8]> = smallvec![first];
    while let Some(work) = stack.last_mut() {
        let before: SmallVec<[Work; 2]> = match work {
            Work::Call(call, n_there) => call.advance(n_there)?.into_iter().collect(),
            Work::Ops(values) => {
                let calls = evaluate::run_ops(values)?.into_iter();
                calls.map(|call| Work::Call(call, 0)).collect()
            }
        };
        match before.is_empty() {
            true => drop(stack.pop()),
            false => stack.extend(before),
        }
    }
    Ok(())
}

/// Returns what the plans say that compute these values, each after those that it depends on. Ops are explained together.
pub(crate) fn explain(values: Vec<Shared>, ops: Recorded) -> Vec<String> {
    enum Step {
        Value(Shared),
        Call(Arc<CallNode>),
        Ops(Graph),
    }
    let behind = |ops: Recorded, steps: &mut Vec<Step>| {
        if !ops.is_empty() {
            let graph = Graph::unseen(&ops, graph::Results::TargetsAndHeld);
            let leaves: Vec<Shared> = graph.leaves.iter().rev().cloned().collect();
            steps.push(Step::Ops(graph));
            steps.extend(leaves.into_iter().map(Step::Value));
        }
    };
    // The nodes stay: no other gets the address of one.
    let mut seen: HashSet<*const CallNode> = HashSet::new();
    let mut nodes: Vec<Arc<CallNode>> = Vec::new();
    let mut texts = Vec::new();
    // A value is looked at on the way down, and its plan is written on the way back.
    let mut steps = Vec::new();
    behind(ops, &mut steps);
    steps.extend(values.into_iter().rev().map(Step::Value));
    while let Some(step) = steps.pop() {
        match step {
            Step::Call(node) => texts.push(Arc::<CallNode>::as_ref(&node).explain()),
            Step::Ops(graph) => texts.push(graph.explain()),
            Step::Value(value) => {
                if let Look::Call(node) = value.look()
                    && seen.insert(Arc::as_ptr(&node))
                {
                    nodes.push(node.clone());
                    let args = node
                        .state()
                        .map_or_else(|_| Vec::new(), |state| state.args.clone());
                    steps.push(Step::Call(node));
                    let (ops, args): (Vec<Shared>, Vec<Shared>) = args
                        .into_iter()
                        .partition(|arg| matches!(arg.look(), Look::Op));
                    behind(ops.into(), &mut steps);
                    steps.extend(args.into_iter().rev().map(Step::Value));
                }
            }
        }
    }
    texts
}

#[cfg(test)]
mod tests;
