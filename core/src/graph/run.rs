//! Computation of pending values: calls and ops run in one loop, without recursion.

use super::call_node::{CallNode, no_results, recycle_results};
use super::pending::{Graph, ResultSet};
use super::recording::impure;
use super::value::{self, Shared, State};
use crate::Result;
use crate::plan::{Donations, PlanLeaves};
use gradloom_kernels::task::Leaf;
use smallvec::{SmallVec, smallvec};
use std::collections::HashSet;
use std::sync::Arc;

/// Values to compute together.
pub(crate) struct Pending(Recorded);

impl Pending {
    /// Notes that a recorded body reads values.
    pub(crate) fn new() -> Pending {
        impure();
        Pending(Recorded::new())
    }

    /// Computes a value that a call promises, or adds a value that an op promises.
    pub(crate) fn add(&mut self, value: &Shared) -> Result<()> {
        loop {
            match value.state() {
                State::Ready(_) => return Ok(()),
                State::Call(node) => run(node)?,
                State::StandIn(of) => return Err(of.error()),
                State::Op => {
                    self.0.push(value.clone());
                    return Ok(());
                }
            }
        }
    }

    /// Computes the values that ops promise.
    ///
    /// They are sorted as they were recorded, so that the same values in another order find the same plan.
    pub(crate) fn compute(mut self) -> Result<()> {
        if self.0.len() > 1 {
            self.0.sort_by_key(|value| value.seq_no);
        }
        match self.0.is_empty() {
            true => Ok(()),
            false => work(PendingWork::Ops(self.0)),
        }
    }
}

/// Computes values.
pub(crate) fn realise(targets: &[Shared]) -> Result<()> {
    let mut pending = Pending::new();
    targets.iter().try_for_each(|target| pending.add(target))?;
    pending.compute()
}

/// Pending results of ops.
pub(crate) type Recorded = SmallVec<[Shared; 4]>;

/// Computes pending results of ops, or returns the pending calls that have to run first.
pub(crate) fn run_ops(recorded: &[Shared]) -> Result<SmallVec<[Arc<CallNode>; 2]>> {
    let graph = Graph::of(recorded, ResultSet::TargetsAndHeld);
    let pending = graph.leaves.iter().filter_map(|leaf| match leaf.state() {
        State::Call(node) => Some(node),
        State::Ready(_) | State::Op | State::StandIn(_) => None,
    });
    let pending: SmallVec<[_; 2]> = pending.collect();
    if !pending.is_empty() {
        return Ok(pending);
    }
    match run_graph(recorded, &graph) {
        // Held values were not requested, so a failure to compute them is not an error.
        Err(_) if !graph.held.is_empty() => {
            drop(graph);
            run_graph(recorded, &Graph::of(recorded, ResultSet::Targets))?;
        }
        ran => ran?,
    }
    Ok(SmallVec::new())
}

/// Computes the results of a graph: its targets and the held values.
fn run_graph(targets: &[Shared], graph: &Graph) -> Result<()> {
    let entry = graph.plan()?;
    let leaves = graph.leaves.iter().map(elements);
    let mut buffers = no_results();
    let leaves = leaves.collect::<Result<PlanLeaves<'_>>>()?;
    entry.run(&leaves, &mut Donations::new(), &mut buffers)?;
    let results = buffers.drain(..);
    let results = results.map(|buffer| buffer.expect("no result has been taken yet"));
    value::realise(targets.iter().chain(&graph.held).zip(results));
    recycle_results(buffers);
    Ok(())
}

/// Returns the elements of a leaf. Runs the call that promises them, if there is one.
fn elements(leaf: &Shared) -> Result<Leaf<'_>> {
    loop {
        match leaf.state() {
            State::Ready(buffer) => return Ok(Leaf::Held(buffer)),
            State::Call(node) => run(node)?,
            State::StandIn(of) => return Err(of.error()),
            State::Op => unreachable!("a walk continues through pending ops"),
        }
    }
}

/// Pending work on the stack of [`work`].
pub(crate) enum PendingWork {
    /// A call, and the number of its leaves that are known to be ready.
    Call(Arc<CallNode>, usize),
    /// Pending results of ops.
    Ops(Recorded),
}

/// Computes the results of a call and everything that they depend on.
pub(crate) fn run(call: Arc<CallNode>) -> Result<()> {
    work(PendingWork::Call(call, 0))
}

/// Does `first` and all work that it depends on.
///
/// The loop has its own stack: a chain of calls and ops may be too long for recursion.
fn work(first: PendingWork) -> Result<()> {
    let mut stack: SmallVec<[PendingWork; 8]> = smallvec![first];
    while let Some(work) = stack.last_mut() {
        let before: SmallVec<[PendingWork; 2]> = match work {
            PendingWork::Call(call, n_there) => call.advance(n_there)?.into_iter().collect(),
            PendingWork::Ops(values) => {
                let calls = run_ops(values)?.into_iter();
                calls.map(|call| PendingWork::Call(call, 0)).collect()
            }
        };
        match before.is_empty() {
            true => drop(stack.pop()),
            false => stack.extend(before),
        }
    }
    Ok(())
}

/// Describes the plans that compute `values`, each after the plans that it depends on.
pub(crate) fn explain(values: &[Shared]) -> String {
    let (mut recorded, mut calls) = (Recorded::new(), Vec::new());
    for value in values {
        match value.state() {
            State::Ready(_) | State::StandIn(_) => {}
            State::Op => recorded.push(value.clone()),
            State::Call(_) => calls.push(value.clone()),
        }
    }
    let mut texts = explain_pending(calls, recorded);
    if texts.is_empty() {
        texts.push(Graph::unseen(&[], ResultSet::Targets).explain());
    }
    texts.join("\n")
}

fn explain_pending(values: Vec<Shared>, ops: Recorded) -> Vec<String> {
    enum Step {
        Value(Shared),
        Call(Arc<CallNode>),
        Ops(Graph),
    }
    let push_ops = |ops: Recorded, steps: &mut Vec<Step>| {
        if !ops.is_empty() {
            let graph = Graph::unseen(&ops, ResultSet::TargetsAndHeld);
            let leaves: Vec<Shared> = graph.leaves.iter().rev().cloned().collect();
            steps.push(Step::Ops(graph));
            steps.extend(leaves.into_iter().map(Step::Value));
        }
    };
    // Keeps the nodes alive, so that no address in `seen` is reused.
    let mut seen: HashSet<*const CallNode> = HashSet::new();
    let mut nodes: Vec<Arc<CallNode>> = Vec::new();
    let mut texts = Vec::new();
    // A call or a graph is described after the values that it depends on.
    let mut steps = Vec::new();
    push_ops(ops, &mut steps);
    steps.extend(values.into_iter().rev().map(Step::Value));
    while let Some(step) = steps.pop() {
        match step {
            Step::Call(node) => texts.push(Arc::<CallNode>::as_ref(&node).explain()),
            Step::Ops(graph) => texts.push(graph.explain()),
            Step::Value(value) => {
                if let State::Call(node) = value.state()
                    && seen.insert(Arc::as_ptr(&node))
                {
                    nodes.push(node.clone());
                    let args = node.args();
                    steps.push(Step::Call(node));
                    let (ops, args): (Vec<Shared>, Vec<Shared>) = args
                        .into_iter()
                        .partition(|arg| matches!(arg.state(), State::Op));
                    push_ops(ops.into(), &mut steps);
                    steps.extend(args.into_iter().rev().map(Step::Value));
                }
            }
        }
    }
    texts
}
