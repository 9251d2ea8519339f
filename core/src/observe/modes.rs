//! Modes of evaluation of a thread, and the graphs of the ops that are recorded in them.

use crate::Result;
use crate::graph::engine::Engine;
use crate::graph::recording::{Watch, set_watch};
use crate::graph::run;
use crate::graph::trace_scope::{GraphEpoch, Scope, Scopes};
use crate::graph::value::{self, Edges, NEVER, Producer, Shared, Value};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Way in which a thread computes what it records. Results have the same bits in all modes.
///
/// See the [module](crate::engine).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Operations are promises, which are computed together when a value is read. This is the default.
    #[default]
    Promises,
    /// Each operation is computed at once, and stays in the graph until the graph is released.
    EagerGraph,
    /// Each operation is computed at once and alone. It stays only if a derivative may need it.
    OpByOp,
}

/// Number of values that a graph notes before it looks for those that nothing needs.
const MIN_VALUES: usize = 64;

/// Size in bytes of the same.
const MIN_BYTES: usize = 1 << 20;

/// The ops that a thread records in a mode.
pub(crate) struct ModeGraph {
    mode: Mode,
    epoch: GraphEpoch,
    scope: Arc<Scope>,
    /// The scope as a set, which all values share.
    scopes: Scopes,
    /// Results that still have their ops, in the order of recording.
    values: Vec<Shared>,
    /// Size of the values in bytes.
    bytes: usize,
    /// Number and size of the values at which those that nothing needs are dropped.
    most: [usize; 2],
}

thread_local! {
    /// Graphs of the modes of this thread. The last one is active.
    static GRAPHS: RefCell<Vec<Rc<RefCell<ModeGraph>>>> = const { RefCell::new(Vec::new()) };
}

/// Begins a mode of this thread.
pub(crate) fn enter(mode: Mode) -> Rc<RefCell<ModeGraph>> {
    let graph = Rc::new(RefCell::new(ModeGraph::new(mode)));
    // Thread-locals are gone while a thread exits; then the mode stays.
    let _ = GRAPHS.try_with(|graphs| graphs.borrow_mut().push(graph.clone()));
    set_mode();
    graph
}

/// Ends a mode of this thread, and releases its graph.
pub(crate) fn leave(graph: &Rc<RefCell<ModeGraph>>) {
    let _ = GRAPHS.try_with(|graphs| {
        graphs
            .borrow_mut()
            .retain(|other| !Rc::ptr_eq(other, graph))
    });
    set_mode();
    ModeGraph::release(graph);
}

/// Returns the active mode of this thread.
pub(crate) fn active_mode() -> Mode {
    active().map_or(Mode::Promises, |graph| graph.borrow().mode)
}

fn active() -> Option<Rc<RefCell<ModeGraph>>> {
    let active = GRAPHS.try_with(|graphs| graphs.borrow().last().cloned());
    active.ok().flatten()
}

/// Watches the ops of this thread as the active mode asks for.
fn set_mode() {
    let active = active();
    let mode = active.as_ref().map(|graph| graph.borrow().mode);
    set_watch(Watch::Graph, active.is_some());
    set_watch(
        Watch::OpByOp,
        mode.is_some_and(|mode| mode != Mode::Promises),
    );
}

/// Adds an op, which has no handles yet, to the graph of an eager mode.
#[cold]
pub(crate) fn join_graph(value: &mut Value) {
    if value.depth() != NEVER
        && let Some(graph) = active()
        && let Ok(graph) = graph.try_borrow()
        && graph.mode == Mode::EagerGraph
    {
        value.add_scopes(graph.scopes.clone());
    }
}

/// Notes the results of an op.
pub(super) fn note(outs: &[Shared]) {
    let Some(graph) = active() else { return };
    ModeGraph::note(&graph, outs);
}

/// Relation of a noted value to what is outside of its graph.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Something outside of the graph holds it: a handle of the user, or an op of another graph.
    Held,
    /// A held value leads to it.
    Needed,
    Unused,
}

impl ModeGraph {
    fn new(mode: Mode) -> ModeGraph {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let graph = NEXT.fetch_add(1, Ordering::Relaxed);
        let epoch = GraphEpoch { graph, number: 0 };
        let scope = Scope::of_epoch(epoch);
        ModeGraph {
            mode,
            epoch,
            scopes: Scopes::one(scope.clone()),
            scope,
            values: Vec::new(),
            bytes: 0,
            most: [MIN_VALUES, MIN_BYTES],
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) fn epoch(&self) -> GraphEpoch {
        self.epoch
    }

    /// Returns the scope of the epoch. A value that depends on one in it keeps its op.
    pub(crate) fn scope(&self) -> Arc<Scope> {
        self.scope.clone()
    }

    /// Notes results that still have their ops. Drops those that nothing needs, once there may be many.
    pub(crate) fn note(graph: &RefCell<ModeGraph>, outs: &[Shared]) {
        // A destructor of the user that computes may run while the graph is in use.
        let Ok(mut noting) = graph.try_borrow_mut() else {
            return;
        };
        for out in outs.iter().filter(|out| out.has_op()) {
            noting.bytes += bytes(out);
            noting.values.push(out.clone());
        }
        if noting.values.len() < noting.most[0] && noting.bytes < noting.most[1] {
            return;
        }
        let unused = noting.take_unused();
        drop(noting);
        value::release(unused);
    }

    /// Removes the values that nothing needs.
    fn take_unused(&mut self) -> Vec<Shared> {
        let uses = uses(&self.values);
        let values = std::mem::take(&mut self.values).into_iter().zip(uses);
        let mut unused = Vec::new();
        for (value, is) in values {
            match is == Use::Unused || !value.has_op() {
                true => unused.push(value),
                false => self.values.push(value),
            }
        }
        self.bytes = self.values.iter().map(bytes).sum();
        self.most = [
            MIN_VALUES.max(2 * self.values.len()),
            MIN_BYTES.max(2 * self.bytes),
        ];
        unused
    }

    /// Computes the noted values that something holds, in one plan.
    pub(crate) fn evaluate_all(graph: &RefCell<ModeGraph>) -> Result<()> {
        let (targets, others) = {
            let mut graph = graph.borrow_mut();
            let uses = uses(&graph.values);
            let values = std::mem::take(&mut graph.values).into_iter().zip(uses);
            let is_target = |(value, is): &(Shared, Use)| *is == Use::Held && !value.has_elements();
            let (targets, others): (Vec<_>, Vec<_>) = values.partition(is_target);
            let strip = |all: Vec<(Shared, Use)>| -> Vec<Shared> {
                all.into_iter().map(|(value, _)| value).collect()
            };
            (strip(targets), strip(others))
        };
        // A value that is only needed is not a result of the plan, so it must not have another handle. An eager
        // graph has no such values.
        let (done, pending): (Vec<Shared>, Vec<Shared>) =
            others.into_iter().partition(|value| value.has_elements());
        value::release(pending);
        let computed = run::realise(&targets);
        let unused = {
            let mut graph = graph.borrow_mut();
            graph.values.extend(done.into_iter().chain(targets));
            graph.values.sort_by_key(|value| value.seq_no);
            graph.take_unused()
        };
        value::release(unused);
        computed
    }

    /// Frees the ops of the epoch, and begins the next one.
    pub(crate) fn release(graph: &RefCell<ModeGraph>) {
        let values = {
            let mut graph = graph.borrow_mut();
            graph.scope.close();
            graph.epoch.number += 1;
            graph.scope = Scope::of_epoch(graph.epoch);
            graph.scopes = Scopes::one(graph.scope.clone());
            (graph.bytes, graph.most) = (0, [MIN_VALUES, MIN_BYTES]);
            std::mem::take(&mut graph.values)
        };
        for value in &values {
            value.detach_if_ready();
        }
        value::release(values);
    }

    /// Returns the epoch of this graph to which a value belongs.
    pub(crate) fn epoch_of(&self, x: &Value) -> Option<u64> {
        x.epoch_in(self.epoch.graph)
    }
}

fn bytes(value: &Shared) -> usize {
    value.aval.numel() * value.aval.dtype().size()
}

fn address(value: &Shared) -> usize {
    Shared::as_ptr(value) as usize
}

/// Returns the op of a value, which may have several results, and its operands.
fn producer<'a>(value: &'a Shared, edges: &'a Edges) -> (&'a Shared, &'a [Shared]) {
    match value.producer(edges) {
        Producer::Nothing => (value, &[]),
        Producer::Op(args) => (value, args),
        Producer::Part(op, _) => (op, op.operands(edges)),
    }
}

/// Returns the use of each value, given that each has one handle more, that of the list.
fn uses(values: &[Shared]) -> Vec<Use> {
    let engine = Engine::lock();
    let mut inside: HashMap<usize, usize> = HashMap::new();
    let mut ops = HashSet::new();
    for value in values {
        let (op, args) = producer(value, &engine.edges);
        if ops.insert(address(op)) {
            for arg in args {
                *inside.entry(address(arg)).or_default() += 1;
            }
        }
    }
    let mut needed = HashSet::new();
    let mut uses = vec![Use::Unused; values.len()];
    for (value, is) in values.iter().zip(&mut uses).rev() {
        let edges = inside.get(&address(value)).copied().unwrap_or(0);
        *is = match Shared::strong_count(value) > 1 + edges {
            true => Use::Held,
            false if needed.contains(&address(value)) => Use::Needed,
            false => continue,
        };
        let (_, args) = producer(value, &engine.edges);
        needed.extend(args.iter().map(address));
    }
    uses
}
