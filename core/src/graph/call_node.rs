//! Pending calls of cached plans.

use super::partial::PartialPlans;
use super::run::{PendingWork, run};
use super::value::{self, Shared, State, Value, release};
use crate::function::{Record, Timer};
use crate::plan::cache::CachedPlan;
use crate::plan::{self, Donations, PlanLeaves};
use crate::recycle::{self, FreeList};
use crate::{Error, Result};
use gradloom_kernels::lock;
use gradloom_kernels::memory::Buffer;
use gradloom_kernels::task::Leaf;
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Plan shared by all calls with equal keys.
pub(crate) struct CallPlan {
    pub(crate) entry: Arc<CachedPlan>,
    /// Argument index of each leaf of the plan.
    pub(crate) leaves: Box<[u32]>,
    /// True if running the plan costs no more than promising its results.
    pub(crate) is_small: bool,
    /// Cached plans for subsets of the results.
    pub(crate) parts: PartialPlans,
    /// Function that the run time is charged to.
    pub(crate) function: Option<Arc<Record>>,
}

/// Largest traffic of a small plan, in elements read and written.
pub(crate) const SMALL: usize = 8 << 10;

impl CallPlan {
    pub(crate) fn new(
        entry: Arc<CachedPlan>,
        leaves: Box<[u32]>,
        function: Option<Arc<Record>>,
    ) -> CallPlan {
        let is_small = entry.plan.traffic() <= SMALL;
        CallPlan {
            entry,
            leaves,
            is_small,
            parts: PartialPlans::default(),
            function,
        }
    }

    /// Returns a timer for one run of the plan, or `None` if calls are not measured.
    #[inline]
    fn timer(&self) -> Option<Timer> {
        self.function.as_ref()?.timer()
    }

    fn n_results(&self) -> usize {
        self.entry.plan.n_results()
    }

    /// Runs the plan if all arguments are realised. Returns `None` on error: the caller then
    /// promises the results, and evaluating one reports the error.
    pub(crate) fn run_on<'a>(
        &self,
        arg: impl Fn(usize) -> &'a Shared,
    ) -> Option<Vec<Option<Arc<Buffer>>>> {
        let mut leaves = PlanLeaves::new();
        for leaf in &self.leaves {
            leaves.push(Leaf::Held(arg(*leaf as usize).detach_if_ready()?));
        }
        let mut results = no_results();
        let _timer = self.timer();
        match self.entry.run(&leaves, &mut Donations::new(), &mut results) {
            Ok(()) => Some(results),
            Err(_) => {
                recycle_results(results);
                None
            }
        }
    }
}

/// A call that is pending, or its results.
pub(crate) struct CallNode {
    /// `None` only while the node is in the free list.
    plan: Option<Arc<CallPlan>>,
    /// Length of the longest chain of pending ops and calls that ends here.
    depth: u32,
    /// True once the plan has run. Readable without the lock, which is held during the run.
    done: AtomicBool,
    /// Process generation of the last run, see [`lock::generation`].
    generation: AtomicU32,
    state: Mutex<CallState>,
}

#[derive(Default)]
struct CallState {
    /// Arguments, until the call has run. Each is realised or the result of another call.
    args: Vec<Shared>,
    /// Results that no value has taken yet, once the call has run.
    results: Vec<Option<Arc<Buffer>>>,
    /// Indices of the results that were dropped before the call ran.
    dropped: Vec<u32>,
}

thread_local! {
    /// Free list of call nodes.
    static NODES: FreeList<Arc<CallNode>> = const { RefCell::new(Vec::new()) };
    /// Free list of result vectors.
    static RESULTS: FreeList<Vec<Option<Arc<Buffer>>>> = const { RefCell::new(Vec::new()) };
    /// Free list of argument vectors.
    static ARGS: FreeList<Vec<Shared>> = const { RefCell::new(Vec::new()) };
}

/// Returns an empty vector for results, from the free list if possible.
pub(crate) fn no_results() -> Vec<Option<Arc<Buffer>>> {
    recycle::take(&RESULTS).unwrap_or_default()
}

/// Recycles a vector of results and the buffers left in it.
pub(crate) fn recycle_results(mut results: Vec<Option<Arc<Buffer>>>) {
    results
        .drain(..)
        .flatten()
        .for_each(recycle::recycle_buffer);
    if results.capacity() > 0 {
        recycle::recycle(&RESULTS, results);
    }
}

/// Returns an empty vector for arguments, from the free list if possible.
pub(crate) fn no_args() -> Vec<Shared> {
    recycle::take(&ARGS).unwrap_or_else(|| Vec::with_capacity(16))
}

/// Drops arguments and recycles their vector.
pub(crate) fn recycle_args(mut args: Vec<Shared>) {
    args.drain(..).for_each(value::drop_handle);
    if args.capacity() > 0 {
        recycle::recycle(&ARGS, args);
    }
}

impl CallNode {
    pub(crate) fn new(plan: Arc<CallPlan>, args: Vec<Shared>) -> Arc<CallNode> {
        let mut node = recycle::take(&NODES).unwrap_or_else(|| {
            Arc::new(CallNode {
                plan: None,
                depth: 0,
                done: AtomicBool::new(false),
                generation: AtomicU32::new(0),
                state: Mutex::default(),
            })
        });
        let only = Arc::get_mut(&mut node).expect("a call node in the free list is uniquely owned");
        only.plan = Some(plan);
        let depths = args.iter().map(|arg| arg.depth());
        only.depth = depths.max().unwrap_or(0).saturating_add(1);
        only.state_mut().args = args;
        node
    }

    fn plan(&self) -> &CallPlan {
        self.plan
            .as_ref()
            .expect("a call outside the free list has a plan")
    }

    /// Locks the state. Fails if a thread of the parent process held the lock when the process was
    /// forked. A call whose kernel panicked counts as not run.
    fn state(&self) -> Result<MutexGuard<'_, CallState>> {
        let runs_here = || self.generation.load(Ordering::Relaxed) == lock::generation();
        lock::lock(&self.state, runs_here).ok_or(Error::Forked)
    }

    fn state_mut(&mut self) -> &mut CallState {
        self.state.get_mut().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns the length of the longest chain of pending ops and calls that ends here.
    ///
    /// Returns 0 once the call has run.
    pub(crate) fn depth(&self) -> u32 {
        match self.is_done() {
            true => 0,
            false => self.depth,
        }
    }

    /// Returns whether the results have been computed.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Takes a result, or returns `None` if the call has not run. The value that stands for this
    /// result takes it once.
    pub(crate) fn take(&self, index: usize) -> Option<Arc<Buffer>> {
        match self.is_done() {
            true => self.state().expect(lock::LOCKED).results[index].take(),
            false => None,
        }
    }

    /// Returns the arguments of a call that has not run.
    pub(crate) fn args(&self) -> Vec<Shared> {
        self.state()
            .map_or_else(|_| Vec::new(), |state| state.args.clone())
    }

    /// Returns a readable description of the plan.
    pub(crate) fn explain(&self) -> String {
        let part = self.state().ok().and_then(|mut state| {
            state.dropped.sort_unstable();
            self.plan().without(&state.dropped)
        });
        let entry = part.as_ref().map_or(&self.plan().entry, |part| &part.entry);
        entry.explain()
    }

    /// Runs the plan, or returns the work that has to be done first. The first `n_there` leaves are
    /// known to be ready.
    ///
    /// Threads that need the same call wait for each other here. A waiting thread holds only the
    /// locks of calls that depend on this one, so there is no deadlock.
    pub(crate) fn advance(&self, n_there: &mut usize) -> Result<Option<PendingWork>> {
        let mut guard = self.state()?;
        if self.is_done() {
            return Ok(None);
        }
        self.generation.store(lock::generation(), Ordering::Relaxed);
        let state = &mut *guard;
        let plan = self.plan();
        for leaf in &plan.leaves[*n_there..] {
            match state.args[*leaf as usize].state() {
                State::Ready(_) => *n_there += 1,
                State::Call(node) => return Ok(Some(PendingWork::Call(node, 0))),
                State::StandIn(of) => return Err(of.error()),
                State::Op => {
                    // Computed together, because they may share ops.
                    let args = plan.leaves[*n_there..].iter();
                    let args = args.map(|leaf| &state.args[*leaf as usize]);
                    let ops = args.filter(|arg| matches!(arg.state(), State::Op));
                    return Ok(Some(PendingWork::Ops(ops.cloned().collect())));
                }
            }
        }
        state.dropped.sort_unstable();
        let part = plan.without(&state.dropped);
        let entry = part.as_ref().map_or(&plan.entry, |part| &part.entry);
        // An argument without other owners donates its buffer to a result.
        let mut given = plan::donate(entry.plan.donations(), |leaf| {
            let arg = &mut state.args[plan.leaves[leaf] as usize];
            Shared::get_mut(arg).and_then(Value::try_donate)
        });
        let mut donations = given.iter().map(|(donation, _)| donation).peekable();
        let there = |(i, leaf): (usize, &u32)| {
            if let Some(donation) = donations.next_if(|donation| donation.leaf == i) {
                return Leaf::Donated(donation.result);
            }
            let elements = state.args[*leaf as usize].detach_if_ready();
            Leaf::Held(elements.expect("the loop above has found every leaf ready"))
        };
        let leaves: PlanLeaves<'_> = plan.leaves.iter().enumerate().map(there).collect();
        let timer = plan.timer();
        let ran = entry.run(&leaves, &mut given, &mut state.results);
        drop(timer);
        drop(leaves);
        for (donation, buffer) in given {
            let arg = &mut state.args[plan.leaves[donation.leaf] as usize];
            let arg = Shared::get_mut(arg)
                .expect("an argument that donates its buffer is uniquely owned");
            arg.restore(buffer);
        }
        ran?;
        if let Some(part) = &part {
            let mut found = std::mem::replace(&mut state.results, no_results());
            state.results.resize(plan.n_results(), None);
            for (i, buffer) in part.results.iter().zip(found.drain(..)) {
                state.results[*i as usize] = buffer;
            }
            recycle_results(found);
        }
        let args = std::mem::take(&mut state.args);
        self.done.store(true, Ordering::Release);
        // Dropping arguments may drop long chains of values, so the lock is released first.
        drop(guard);
        recycle_args(args);
        Ok(None)
    }
}

/// Recycles a call node if it is uniquely owned. Moves its remaining arguments to `pending`.
pub(crate) fn recycle_node(mut node: Arc<CallNode>, pending: &mut Vec<Shared>) {
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
    results.for_each(recycle::recycle_buffer);
    recycle_args(args);
    recycle::recycle(&NODES, node);
}

/// Drops the value of a result that has not been taken, then recycles the node as [`recycle_node`] does.
pub(crate) fn drop_result(node: Arc<CallNode>, index: usize, pending: &mut Vec<Shared>) {
    if let Some(buffer) = node.take(index) {
        recycle::recycle_buffer(buffer);
    } else if let Ok(mut state) = node.state.try_lock() {
        // If the lock is taken, the call is probably running, and computes this result anyway.
        state.dropped.push(index as u32);
    }
    recycle_node(node, pending);
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

/// Length at which a chain of pending calls runs although no result is needed.
///
/// It bounds the memory of a loop that never reads a value.
const MAX_PENDING_CALLS: u32 = 256;

/// Runs the call if it completes a chain of [`MAX_PENDING_CALLS`].
pub(crate) fn bound_pending(call: &Arc<CallNode>) {
    if call.depth.is_multiple_of(MAX_PENDING_CALLS) {
        // A call that fails stays pending, and evaluating one of its results reports the error.
        let _ = run(call.clone());
    }
}
