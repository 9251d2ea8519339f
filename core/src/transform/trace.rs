//! Tracing: runs a closure once and extracts its program from the graph.

use super::Outcome;
use crate::events::{self, Event};
use crate::graph::cut_program::CutProgram;
use crate::graph::engine::Engine;
use crate::graph::pending;
use crate::graph::recording::{Watch, watches};
use crate::graph::seq_no::seq_no_of_all;
use crate::graph::to_program::Lowering;
use crate::graph::topo::{Origin, OriginKind, Stack, WalkNode, Walker, walk};
use crate::graph::trace_scope::{GraphEpoch, Scope};
use crate::graph::value::{Edges, Producer, Shared, StandIn, ValueSource};
use crate::observe::{self, NodeOutput, TraceContext};
use crate::plan::Lowered;
use crate::plan::lru::Keyed;
use crate::points::{NotedPoint, PointLabel, PointNotes};
use crate::tensor::record::traced_input;
use crate::tensor::replay::Bound;
use crate::tree::{frozen, leaves, with_leaves};
use crate::{Aval, Result, Tensor, Tree, check};
use gradloom_ir::{Op, Program, SecondaryMap, Var};
use std::sync::Arc;

/// Result of tracing a closure.
pub(crate) struct Trace<Y> {
    /// `x..., captured... -> y...`.
    ///
    /// The first parameters stand for the leaves of the argument that are not frozen.
    pub(crate) program: Arc<CutProgram>,
    /// Values that the closure used besides its argument. They are bound to the parameters after
    /// the leaves.
    pub(crate) captured: Vec<Bound>,
    /// Variables that were computed during tracing, because the closure read values.
    pub(crate) known: Vec<(Var, Tensor)>,
    /// Variables with a name that is traced to disk, in the order of execution.
    pub(crate) points: Vec<(Var, PointLabel)>,
    /// Result on fresh values: its structure, and the avals of its leaves.
    pub(crate) y: Y,
}

/// Returns the arguments of a traced program: the free leaves of the argument, then the captured values.
pub(crate) fn args(x: &[Tensor], captured: &[Bound]) -> Vec<Bound> {
    let x = x.iter().cloned().map(Bound::Tensor);
    x.chain(captured.iter().cloned()).collect()
}

/// An open scope, which is closed when this is dropped, even if the traced function panics.
#[derive(Debug)]
pub(crate) struct ScopeGuard(pub(super) Arc<Scope>);

impl ScopeGuard {
    pub(crate) fn open() -> ScopeGuard {
        ScopeGuard(Scope::open())
    }

    pub(crate) fn scope(&self) -> &Arc<Scope> {
        &self.0
    }
}

impl Drop for ScopeGuard {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Returns a tensor without elements that stands for a lane while ops are recorded, or for a structure.
pub(crate) fn stand_in(aval: &Aval) -> Tensor {
    stand_in_for(StandIn::Lane, aval)
}

/// Returns values that stand for lanes and depend on a scope.
pub(crate) fn stand_ins(avals: &[Aval], scope: &ScopeGuard) -> Vec<Tensor> {
    stand_ins_for(StandIn::Lane, avals, scope)
}

fn stand_in_for(of: StandIn, aval: &Aval) -> Tensor {
    let whole = Aval::new(aval.dtype(), aval.physical_shape());
    Tensor::new(&whole, ValueSource::StandIn(of)).with_batch_dims(aval.batch_dims())
}

fn stand_ins_for(of: StandIn, avals: &[Aval], scope: &ScopeGuard) -> Vec<Tensor> {
    let one = |aval| traced_input(&stand_in_for(of, aval), &scope.0);
    avals.iter().map(one).collect()
}

/// Returns a value without elements, which depends on a scope.
pub(crate) fn stand_in_of(aval: &Aval, scope: &Arc<Scope>) -> Tensor {
    traced_input(&stand_in(aval), scope)
}

/// Traces `f` on fresh values equal to the leaves of `x`.
///
/// # Errors
///
/// If a free leaf is not a float, or `f` fails.
pub(crate) fn trace<X: Tree, R: Outcome>(f: impl FnOnce(&X) -> R, x: &X) -> Result<Trace<R::Tree>> {
    check::floats(x, "argument")?;
    let mut y = None;
    let trace = trace_leaves(&mut on_leaves(f, x, &mut y), &leaves(x), &frozen(x))?;
    Ok(Trace {
        program: trace.program,
        captured: trace.captured,
        known: trace.known,
        points: trace.points,
        y: y.expect("the function was traced"),
    })
}

/// A function of a list of leaves, which is called once.
///
/// It is a trait object, so that tracing is compiled once and not for each function of the user.
pub(crate) type LeafFunction<'a> = dyn FnMut(&[Tensor]) -> Result<Vec<Tensor>> + 'a;

/// Returns `f` as a function of the leaves of `x`. A call of it stores the tree that `f` returns in `y`.
pub(crate) fn on_leaves<X: Tree, R: Outcome>(
    f: impl FnOnce(&X) -> R,
    x: &X,
    y: &mut Option<R::Tree>,
) -> impl FnMut(&[Tensor]) -> Result<Vec<Tensor>> {
    let mut f = Some(f);
    move |fresh| {
        let f = f.take().expect("the function is called once");
        let found = R::run(|| f(&with_leaves(x, fresh)))?;
        Ok(leaves(y.insert(found)))
    }
}

/// Traces `f` on fresh values equal to the leaves `x`. A frozen leaf is passed as it is, and becomes a
/// captured constant.
pub(crate) fn trace_leaves(
    f: &mut LeafFunction<'_>,
    x: &[Tensor],
    frozen: &[bool],
) -> Result<Trace<Vec<Tensor>>> {
    let close = ScopeGuard::open();
    let since = seq_no_of_all();
    let mut inputs = Vec::new();
    let fresh = x.iter().zip(frozen).map(|(leaf, frozen)| match frozen {
        true => leaf.clone(),
        false => {
            let input = traced_input(leaf, &close.0);
            inputs.push(input.clone());
            input
        }
    });
    let fresh: Vec<Tensor> = fresh.collect();
    let notes = PointNotes::begin();
    let y = f(&fresh)?;
    let noted = notes.map_or_else(Vec::new, |notes| notes.take());
    let GraphPart {
        program,
        captured,
        nodes,
        points,
    } = cut_until(
        &inputs,
        WalkEnd::OlderThan(since),
        &y,
        Include::Dependent,
        &noted,
    )
    .0;
    drop(close);
    let known = known(&program, nodes);
    events::emit(Event::Traced {
        equations: program.eqns.len(),
    });
    let points = points.into_iter().zip(noted);
    let points = points.filter_map(|(var, (_, label))| Some((var?, label)));
    Ok(Trace {
        program,
        captured,
        known,
        points: points.collect(),
        y,
    })
}

/// Result of tracing a function without its arguments.
pub(crate) struct AbstractTrace {
    /// `x..., captured... -> y...`.
    pub(crate) program: Program,
    /// Values that the function used besides its argument.
    pub(crate) captured: Vec<Bound>,
    /// Node of each equation, or `None` for a number.
    pub(crate) nodes: Vec<Option<NodeOutput>>,
}

/// Traces `f` on values without elements, which are inputs of these names.
pub(crate) fn trace_abstract(
    f: &mut LeafFunction<'_>,
    x: &[Tensor],
    names: &[String],
) -> Result<AbstractTrace> {
    let scope = ScopeGuard::open();
    let since = seq_no_of_all();
    let avals: Vec<Aval> = x.iter().map(|x| x.aval().clone()).collect();
    let inputs = stand_ins_for(StandIn::Argument, &avals, &scope);
    let context = TraceContext::new();
    for (input, name) in inputs.iter().zip(names) {
        let value = input.physical_value();
        context.on_log(|log| {
            let node = log.push(observe::leaf("input", input.aval().clone()).named(name));
            log.hold(value, NodeOutput { node, index: 0 });
        });
    }
    let y = f(&inputs)?;
    let part = cut_but_params(&inputs, since, &y);
    drop(scope);
    let recorded = context.close();
    let node = |node: &Shared| recorded.on_log(|log| log.find_op(node));
    events::emit(Event::Traced {
        equations: part.program.eqns.len(),
    });
    Ok(AbstractTrace {
        nodes: part.nodes.iter().map(node).collect(),
        program: part.program.into_program(),
        captured: part.captured,
    })
}

/// Returns the program that computes pending values, and the values that it reads.
pub(crate) fn pending(outs: &[Tensor]) -> (Program, Vec<Bound>) {
    cut_behind(&[], 0, outs)
}

/// Returns the variables that were computed during tracing.
///
/// A value that another transform traces is not included: that transform needs the op.
pub(super) fn known(program: &Program, nodes: Vec<Shared>) -> Vec<(Var, Tensor)> {
    let computed = program.eqns.iter().zip(nodes);
    let computed = computed.filter(|(eqn, node)| {
        matches!(eqn.outs[..], [_]) && node.has_elements() && !node.is_traced()
    });
    computed
        .map(|(eqn, node)| (eqn.out(), Tensor(node.into())))
        .collect()
}

/// Extracts the program from `inputs` to `outs` made of nodes younger than `since`. Returns it with
/// the older values that it reads, which are bound to the parameters after the inputs.
pub(crate) fn cut_behind(inputs: &[Tensor], since: u64, outs: &[Tensor]) -> (Program, Vec<Bound>) {
    let part = cut(inputs, since, outs, false);
    (part.program.into_program(), part.captured)
}

/// The graph between inputs and a result.
pub(crate) struct DependentGraph {
    /// `inputs..., captured... -> result`.
    pub(crate) program: Program,
    /// Bindings of the parameters of the program.
    pub(crate) bound: Vec<Bound>,
    /// The values of all variables that equations bind.
    pub(crate) known: Vec<(Var, Tensor)>,
    /// The values of all ops, and the ops that own several.
    pub(crate) values: Vec<Shared>,
}

/// Extracts the program from `leaves`, which stand for parameters, to `y`. Values that do not depend on parameters are
/// captured, and so are parameters that are not among the leaves.
pub(crate) fn cut_to_params(leaves: &[Tensor], y: &Tensor) -> DependentGraph {
    cut_with_values(leaves, WalkEnd::NoParams, y)
}

/// Extracts the program from `inputs`, which are nodes of a graph, to `y`. Values outside of the epoch are captured.
pub(crate) fn cut_to_nodes(inputs: &[Tensor], epoch: GraphEpoch, y: &Tensor) -> DependentGraph {
    cut_with_values(inputs, WalkEnd::OutsideOf(epoch), y)
}

/// Extracts a program, with the values that it has.
fn cut_with_values(leaves: &[Tensor], end: WalkEnd, y: &Tensor) -> DependentGraph {
    let outs = std::slice::from_ref(y);
    let include = Include::dependent_or_all(!leaves.is_empty());
    let (part, values) = cut_until(leaves, end, outs, include, &[]);
    let mut known: Vec<(Var, Tensor)> = Vec::new();
    let mut found: SecondaryMap<Var, ()> = SecondaryMap::new();
    for (value, source) in &values {
        if let OriginKind::Node(node, out) = source.kind() {
            let var = part.program.eqns[node as usize].outs[out as usize];
            if found.insert(var, ()).is_none() {
                known.push((var, Tensor::of(value)));
            }
        }
    }
    // Results of an op with several that nothing has used yet.
    for (eqn, node) in part.program.eqns.iter().zip(&part.nodes) {
        for (i, var) in (0..).zip(&eqn.outs) {
            if !found.contains(*var) {
                let source = ValueSource::Part(node.clone(), i);
                known.push((*var, Tensor::new(&node.outs()[i as usize], source)));
            }
        }
    }
    let mut values: Vec<Shared> = values.into_iter().map(|(value, _)| value).collect();
    values.extend(part.nodes);
    let physical = leaves.iter().map(|leaf| Bound::Tensor(leaf.physical()));
    DependentGraph {
        program: part.program.into_program(),
        bound: physical.chain(part.captured).collect(),
        known,
        values,
    }
}

/// A part of the graph as a program.
pub(crate) struct GraphPart {
    pub(crate) program: Arc<CutProgram>,
    /// Values that are bound to the parameters after the inputs.
    pub(super) captured: Vec<Bound>,
    /// Node of each equation.
    pub(super) nodes: Vec<Shared>,
    /// Variable of each noted value, if it is in the program.
    points: Vec<Option<Var>>,
}

/// Extracts the program from `inputs` to `outs`.
///
/// Values that are older than `since` are captured. If `dependent` is true, so are values that do
/// not depend on an input. No node that depends on an input is older than `since`.
///
/// Programs know no batch prefixes: inputs and results are taken without theirs.
pub(crate) fn cut(inputs: &[Tensor], since: u64, outs: &[Tensor], dependent: bool) -> GraphPart {
    let include = Include::dependent_or_all(dependent);
    cut_until(inputs, WalkEnd::OlderThan(since), outs, include, &[]).0
}

/// As [`cut`] of all younger values, except that values that depend on parameters and on no input are captured.
///
/// The leaf of a parameter leads to it, so it is captured even if it is younger.
fn cut_but_params(inputs: &[Tensor], since: u64, outs: &[Tensor]) -> GraphPart {
    let include = Include::AllButParams;
    cut_until(inputs, WalkEnd::OlderThan(since), outs, include, &[]).0
}

/// Returns the tensors besides the operands on which the results of code depend, if they may be differentiated.
/// The code ran after `since`.
pub(crate) fn captured_by(operands: &[Tensor], since: u64, outs: &[Tensor]) -> Vec<Tensor> {
    let captured = cut_but_params(operands, since, outs).captured.into_iter();
    let tensors = captured.filter_map(Bound::into_tensor);
    tensors.filter(|x| x.0.is_in_scope()).collect()
}

/// Nodes that belong to a program that is cut out of the graph.
#[derive(Clone, Copy)]
enum Include {
    /// Those that depend on an input.
    Dependent,
    All,
    /// All except those that depend on parameters and on no input.
    AllButParams,
}

impl Include {
    fn dependent_or_all(dependent: bool) -> Include {
        match dependent {
            true => Include::Dependent,
            false => Include::All,
        }
    }
}

/// Values at which a walk ends.
#[derive(Clone, Copy)]
enum WalkEnd {
    /// Those whose sequence number is not greater.
    OlderThan(u64),
    /// Those that do not depend on parameters.
    NoParams,
    /// Those that do not belong to an epoch of a graph.
    OutsideOf(GraphEpoch),
}

impl WalkEnd {
    fn is_at(self, value: &Shared) -> bool {
        match self {
            WalkEnd::OlderThan(since) => value.seq_no <= since,
            WalkEnd::NoParams => !value.depends_on_params(),
            WalkEnd::OutsideOf(epoch) => value.epoch_in(epoch.graph) != Some(epoch.number),
        }
    }
}

/// Extracts a program as [`cut`] does. Unless the walk ends at older values, the second list has all values that it met.
fn cut_until(
    inputs: &[Tensor],
    end: WalkEnd,
    outs: &[Tensor],
    include: Include,
    noted: &[NotedPoint],
) -> (GraphPart, Vec<(Shared, Origin)>) {
    let mut engine = Engine::lock();
    let epoch = engine.next_epoch();
    let Engine {
        edges, programs, ..
    } = &mut *engine;
    let mut cut = TraceWalk {
        epoch,
        edges: &*edges,
        end,
        include,
        n_inputs: inputs.len(),
        key: vec![0; 4],
        nodes: Vec::new(),
        values: Vec::new(),
        captured: Vec::new(),
        exponents: Vec::new(),
    };
    for (i, input) in inputs.iter().enumerate() {
        input
            .physical_value()
            .stamp
            .set(cut.epoch, Origin::leaf(i as u32));
    }
    let roots = || outs.iter().map(Tensor::physical_value);
    walk(roots(), &mut cut, &mut Stack::default());
    let mut sources: Vec<Origin> = roots().map(|root| root.stamp.last()).collect();
    let noted_at = noted.iter().map(|(value, _)| {
        let found = value.physical_value().stamp.get(cut.epoch)?;
        sources.push(found);
        Some(sources.len() - 1)
    });
    let noted_at: Vec<Option<usize>> = noted_at.collect();
    let TraceWalk {
        mut key,
        nodes,
        captured,
        values,
        ..
    } = cut;
    let lens = [nodes.len(), inputs.len(), captured.len(), outs.len()];
    key[..4].copy_from_slice(&lens.map(|n| n as u64));
    for leaf in inputs.iter().chain(&captured) {
        leaf.physical_value().aval.encode(&mut key);
    }
    key.extend(sources.iter().map(|source| source.encode()));
    // Names and lines are not in the key.
    let is_shared = matches!(end, WalkEnd::OlderThan(_))
        && noted.is_empty()
        && !watches(Watch::Lines)
        && !programs.is_too_long(&key);
    let found = is_shared.then(|| programs.find(&key)).flatten();
    let at: Vec<usize> = nodes.iter().map(|(_, at)| *at).collect();
    let nodes: Vec<Shared> = nodes.into_iter().map(|(op, _)| op.clone()).collect();
    drop(engine);
    let (program, points) = match found {
        Some(found) => (found, Vec::new()),
        None => {
            let leaves = inputs.iter().chain(&captured);
            let mut lowered = lower(leaves, nodes.iter().zip(at), &key, &sources);
            let all = &mut lowered.program.outs;
            let points = noted_at.iter().map(|i| i.map(|i| all[i])).collect();
            all.truncate(outs.len());
            let made = Arc::new(CutProgram::new(lowered, inputs.len(), &key));
            match is_shared && !made.has_code() {
                true => (keep(made), points),
                false => (made, points),
            }
        }
    };
    let captured = captured.into_iter().map(Bound::Tensor);
    let likes = program.likes.iter().cloned().map(Bound::Aval);
    let part = GraphPart {
        captured: captured.chain(likes).collect(),
        program,
        nodes,
        points,
    };
    (part, values)
}

/// Returns the program of ops, each with its position in the key, with the lines of the user's code that recorded them.
fn lower<'a>(
    leaves: impl Iterator<Item = &'a Tensor>,
    nodes: impl Iterator<Item = (&'a Shared, usize)> + Clone,
    key: &[u64],
    sources: &[Origin],
) -> Lowered {
    let mut lowering = Lowering::default();
    leaves.for_each(|leaf| lowering.leaf(&leaf.physical_value().aval));
    for (node, at) in nodes.clone() {
        lowering.node(node, pending::args(&key[at..]));
    }
    let mut lowered = lowering.finish(sources);
    let Program { eqns, lines, .. } = &mut lowered.program;
    for (eqn, (node, _)) in eqns.iter().zip(nodes) {
        if let Some(line) = observe::line_of_op(node.seq_no) {
            lines.extend(eqn.outs.iter().map(|out| (*out, line)));
        }
    }
    lowered
}

/// Keeps a program for later walks, or returns the equal one that another thread has kept meanwhile.
fn keep(made: Arc<CutProgram>) -> Arc<CutProgram> {
    let mut engine = Engine::lock();
    if let Some(found) = engine.programs.find(made.key()) {
        return found;
    }
    let evicted = engine.programs.insert(made.clone());
    // Programs are dropped without the lock.
    drop(engine);
    drop(evicted);
    made
}

/// A graph walk that stops at inputs and at captured values, see [`cut`].
struct TraceWalk<'a> {
    epoch: u64,
    edges: &'a Edges,
    end: WalkEnd,
    include: Include,
    n_inputs: usize,
    /// Encoding of the ops, as in the keys of plans.
    key: Vec<u64>,
    /// Ops in topological order, and the position of each in the key.
    nodes: Vec<(&'a Shared, usize)>,
    /// The values that the walk met, unless it ends at older ones.
    values: Vec<(Shared, Origin)>,
    captured: Vec<Tensor>,
    /// Ops that are [exponents](crate::graph::value::Value::is_exponent) of powers, and do not depend on an input.
    exponents: Vec<u32>,
}

impl<'a> TraceWalk<'a> {
    /// Captures a value as a leaf of the program.
    fn capture(&mut self, value: &Shared) {
        let leaf = Origin::leaf((self.n_inputs + self.captured.len()) as u32);
        value.stamp.set(self.epoch, leaf);
        self.captured.push(Tensor::of(value));
    }

    /// Adds an op to the program, whose result `out` is `value`.
    fn add(&mut self, op: &'a Shared, value: &Shared, out: u32, args: &[Shared]) {
        let number = self.nodes.len() as u32;
        op.stamp.set(self.epoch, Origin::node(number, 0));
        self.note(value, Origin::node(number, out));
        self.nodes.push((op, self.key.len()));
        pending::encode(op, args, &mut self.key);
    }

    /// Notes a value that an op computes.
    fn note(&mut self, value: &Shared, source: Origin) {
        value.stamp.set(self.epoch, source);
        if !matches!(self.end, WalkEnd::OlderThan(_)) {
            self.values.push((value.clone(), source));
        }
    }
}

impl<'a> Walker<'a> for TraceWalk<'a> {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn find(&mut self, value: &'a Shared, stack: &mut Stack<'a>) {
        let producer = match self.end.is_at(value) {
            true => Producer::Nothing,
            false => value.producer(self.edges),
        };
        match producer {
            Producer::Nothing => self.capture(value),
            Producer::Op(args) => {
                let is_power = |by: &WalkNode<'_>| by.op.op == Op::Pow;
                let of_power = value.is_exponent() && stack.reader().is_some_and(is_power);
                if of_power && matches!(self.include, Include::Dependent) {
                    self.exponents.push(self.nodes.len() as u32);
                    self.add(value, value, 0, args);
                } else {
                    stack.push(value, value, 0, args);
                }
            }
            Producer::Part(op, out) => match op.stamp.get(self.epoch).map(Origin::kind) {
                Some(OriginKind::Node(node, _)) => self.note(value, Origin::node(node, out)),
                Some(_) => self.capture(value),
                None => stack.push(value, op, out, op.operands(self.edges)),
            },
        }
    }

    fn finish(&mut self, node: &WalkNode<'a>) {
        let of_input = node.args.iter().any(|arg| match arg.stamp.last().kind() {
            OriginKind::Node(node, _) => !self.exponents.contains(&node),
            OriginKind::Leaf(leaf) => (leaf as usize) < self.n_inputs,
        });
        let depends = match self.include {
            Include::Dependent => of_input,
            Include::All => true,
            Include::AllButParams => of_input || !node.op.depends_on_params(),
        };
        if !depends {
            // An op with several results is not a leaf itself. Each result is captured when it is
            // used.
            node.op.stamp.set(self.epoch, Origin::leaf(u32::MAX));
            self.capture(node.value);
            return;
        }
        self.add(node.op, node.value, node.out, node.args);
    }
}
