//! Calls: one node for a whole function, whose plan is known before it is called.
//!
//! A function that computes the same ops whenever its arguments have the same shapes, structure and static values has
//! a [`Site`], which knows the plans of the calls before. A call that finds its plan there records nothing: its
//! results are promises of one [`CallNode`], which runs the plan for all of them when one is asked for.

mod key;
mod site;

pub use key::{ByClone, ByTree, ByWords, CallKey, NoTree, Same, Static, Unknown, Words};
pub use site::{NoWhole, OfWhole, Recording, Results, Site, Whole, begin, impure};

use crate::Result;
use crate::buffer::Buffer;
use crate::cache::Entry;
use crate::events::{self, Event};
use crate::node::{Look, Value, release};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The plan of calls that are alike.
pub(crate) struct CallPlan {
    entry: Arc<Entry>,
    /// Which argument each leaf of the plan is.
    leaves: Box<[u32]>,
}

/// A call that has not run, or its results.
pub(crate) struct CallNode {
    plan: Arc<CallPlan>,
    /// Whether the state is `Done`, for those who do not want to wait while another thread runs the plan.
    done: AtomicBool,
    state: Mutex<State>,
}

enum State {
    /// The arguments: values that are realised or that other calls compute.
    Pending(Vec<Arc<Value>>),
    /// The results that nobody has taken yet.
    Done(Vec<Option<Arc<Buffer>>>),
}

impl CallNode {
    fn new(plan: Arc<CallPlan>, args: Vec<Arc<Value>>) -> CallNode {
        CallNode {
            plan,
            done: AtomicBool::new(false),
            state: Mutex::new(State::Pending(args)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is replaced in one step, so a panic cannot leave it half written.
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether the results have been computed.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// A result, if it has been computed. The value that is this result takes it once.
    pub(crate) fn take(&self, index: usize) -> Option<Arc<Buffer>> {
        if !self.is_done() {
            return None;
        }
        match &mut *self.state() {
            State::Done(results) => results[index].take(),
            State::Pending(_) => None,
        }
    }

    /// The arguments, of a call that nobody asks for any more.
    pub(crate) fn take_args(&mut self) -> Vec<Arc<Value>> {
        match self.state.get_mut().unwrap_or_else(|e| e.into_inner()) {
            State::Pending(args) => std::mem::take(args),
            State::Done(_) => Vec::new(),
        }
    }

    /// Runs the plan, unless another call has to run first: then it is that one. `buffers` are the leaves that have
    /// been found to be there.
    ///
    /// Threads that ask for one call wait for each other here. Who waits holds the locks of calls that depend on this one
    /// alone, so none waits for itself.
    fn advance(&self, buffers: &mut Vec<Arc<Buffer>>) -> Result<Option<Arc<CallNode>>> {
        let mut state = self.state();
        let State::Pending(args) = &*state else {
            return Ok(None);
        };
        for leaf in &self.plan.leaves[buffers.len()..] {
            match args[*leaf as usize].look() {
                Look::Here(buffer) => buffers.push(buffer),
                Look::Call(node) => return Ok(Some(node)),
                Look::Op(..) => unreachable!("an argument of a call is no op"),
            }
        }
        let entry = &self.plan.entry;
        let results = entry.plan.run(buffers)?;
        let done = State::Done(results.into_iter().map(Some).collect());
        let args = std::mem::replace(&mut *state, done);
        self.done.store(true, Ordering::Release);
        // Dropping arguments may drop much else, which is not done under the lock.
        drop(state);
        drop(args);
        events::emit(Event::Ran { plan: entry.id });
        Ok(None)
    }
}

impl fmt::Debug for CallNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallNode")
            .field("plan", &self.plan.entry.id)
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}

impl Drop for CallNode {
    fn drop(&mut self) {
        release(self.take_args());
    }
}

/// Computes the results of a call, after those of the calls that it depends on.
pub(crate) fn run(call: Arc<CallNode>) -> Result<()> {
    // A long chain of calls is run by a loop.
    let mut stack = vec![(call, Vec::new())];
    while let Some((call, buffers)) = stack.last_mut() {
        match call.advance(buffers)? {
            Some(before) => stack.push((before, Vec::new())),
            None => drop(stack.pop()),
        }
    }
    Ok(())
}

/// What the plans say that compute these values, each call after those that it depends on.
pub(crate) fn explain(values: Vec<Arc<Value>>) -> Vec<String> {
    let mut seen: Vec<Arc<CallNode>> = Vec::new();
    let mut texts = Vec::new();
    // A value is looked at on the way down, and its call's plan is written on the way back.
    let mut stack: Vec<_> = values.into_iter().rev().map(Err).collect();
    while let Some(next) = stack.pop() {
        match next {
            Ok(node) => texts.push(Arc::<CallNode>::as_ref(&node).plan.entry.plan.explain()),
            Err(value) => {
                if let Look::Call(node) = value.look()
                    && !seen.iter().any(|other| Arc::ptr_eq(other, &node))
                {
                    seen.push(node.clone());
                    let args = match &*node.state() {
                        State::Pending(args) => args.clone(),
                        State::Done(_) => Vec::new(),
                    };
                    stack.push(Ok(node));
                    stack.extend(args.into_iter().rev().map(Err));
                }
            }
        }
    }
    texts
}

#[cfg(test)]
mod tests;
