//! The part of the lazy graph between targets and leaves, and its key in the plan cache.

use crate::Result;
use crate::error::ShardingFault;
use crate::events::{self, Event};
use crate::graph::engine::Engine;
use crate::graph::to_program::Lowering;
use crate::graph::topo;
use crate::graph::topo::{Origin, OriginKind, Stack, WalkNode, Walker, walk};
use crate::graph::value;
use crate::graph::value::{DetachedOperands, Edges, Producer, Shared, Value};
use crate::plan::Lowered;
use crate::plan::Plan;
use crate::plan::cache::CachedPlan;
use crate::plan::numbers::Numbers;
use gradloom_ir::op::control::shard_map::collective_in;
use gradloom_ir::{Op, hash, pass};
use gradloom_kernels::memory::Buffer;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;

/// Part of the lazy graph between targets and leaves. Leaves are realised, or results of calls.
pub(crate) struct Graph {
    pub(crate) leaves: Vec<Shared>,
    /// Cache key: everything the plan depends on, and nothing else.
    key: Vec<u64>,
    /// The cached plan, if there is one.
    found: Option<Arc<CachedPlan>>,
    /// Values with ops in topological order, and the position of each in the key.
    ///
    /// Empty if a plan was found.
    nodes: Vec<(Shared, usize)>,
    targets: Vec<Origin>,
    /// Held values: intermediate values that become results, after the targets.
    pub(crate) held: HeldValues,
    /// The numbers among the nodes that became leaves, in the order of a walk that ends at no number.
    pub(crate) numbers: SmallVec<[u32; 4]>,
    memory: Option<Box<Memory>>,
}

/// Values that become results although they are not targets. Most graphs have few.
type HeldValues = SmallVec<[Shared; 4]>;

/// The results of a graph.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultSet {
    /// Only the targets.
    Targets,
    /// The targets and the held values.
    ///
    /// Held values are intermediate values that something outside of the graph holds: the user, or
    /// an op that is not a target. Otherwise they would be computed again when they are requested.
    TargetsAndHeld,
}

/// Selects whether the plan is looked up in the cache.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LookUp {
    Yes,
    No,
}

impl Graph {
    /// Returns the graph of `targets` and looks up its plan.
    ///
    /// Numbers that had other values in the same ops before become leaves, so that they share a plan.
    pub(crate) fn of(targets: &[Shared], results: ResultSet) -> Graph {
        let mut graph = Graph::new(targets, results, LookUp::Yes);
        if graph.numbers.is_empty() {
            return graph;
        }
        let all = graph.all_numbers();
        while !graph.numbers.is_empty() {
            make_leaves(&graph.all_numbers(), &graph.numbers);
            drop(graph);
            graph = Graph::new(targets, results, LookUp::Yes);
        }
        let made = (0..).zip(&all).filter(|(_, number)| number.has_elements());
        graph.numbers = made.map(|(i, _)| i).collect();
        graph
    }

    /// Returns the graph of `targets` without a cache look-up, with the same numbers as leaves as another
    /// graph of the same ops.
    pub(crate) fn unseen_like(targets: &[Shared], numbers: &[u32]) -> Graph {
        let graph = Graph::unseen(targets, ResultSet::Targets);
        if numbers.is_empty() {
            return graph;
        }
        make_leaves(&graph.all_numbers(), numbers);
        drop(graph);
        Graph::unseen(targets, ResultSet::Targets)
    }

    /// Returns the numbers among the nodes. No plan was found.
    fn all_numbers(&self) -> Vec<Shared> {
        let numbers = self.nodes.iter().filter(|(node, _)| node.op == Op::Scalar);
        numbers.map(|(node, _)| node.clone()).collect()
    }

    /// Returns the graph of `targets` without a cache look-up.
    pub(crate) fn unseen(targets: &[Shared], results: ResultSet) -> Graph {
        Graph::new(targets, results, LookUp::No)
    }

    fn new(targets: &[Shared], results: ResultSet, look_up: LookUp) -> Graph {
        let mut memory = Memory::take();
        let mut stack = std::mem::take(&mut memory.stack).emptied();
        // The lock serialises walks, which stamp values, and permits following edges.
        let mut engine = Engine::lock();
        let epoch = engine.next_epoch();
        let Engine { edges, cache, .. } = &mut *engine;
        let mut walking = PendingWalk {
            epoch,
            edges: &*edges,
            leaves: std::mem::take(&mut memory.leaves),
            key: std::mem::take(&mut memory.key),
            nodes: topo::emptied(std::mem::take(&mut memory.nodes)),
            parts: Vec::new(),
            late: Vec::new(),
        };
        // The key starts with the lengths of its sections, so that it is unambiguous.
        walking.key.extend([0; 3]);
        walk(targets, &mut walking, &mut stack);
        let ops_end = walking.key.len();
        let held = match results {
            ResultSet::Targets => HeldValues::new(),
            ResultSet::TargetsAndHeld => walking.held(targets),
        };
        let PendingWalk {
            leaves,
            mut key,
            nodes,
            late,
            ..
        } = walking;
        for leaf in &leaves {
            leaf.aval.encode(&mut key);
        }
        let sources = targets.iter().chain(&held);
        let sources = sources.map(|target| target.stamp.last());
        key.extend(sources.clone().map(Origin::encode));
        let lens = [nodes.len(), leaves.len(), targets.len() + held.len()];
        key[..3].copy_from_slice(&lens.map(|n| n as u64));
        let found = match look_up {
            LookUp::Yes => cache.find(&key),
            LookUp::No => None,
        };
        let numbers = match (&found, look_up) {
            (None, LookUp::Yes) => changing_numbers(&nodes, &key, ops_end, &mut cache.numbers),
            _ => SmallVec::new(),
        };
        let (owned, targets) = match found {
            Some(_) => (Vec::new(), Vec::new()),
            None => {
                let own = |(node, at): &(&Shared, usize)| (Shared::clone(node), *at);
                (nodes.iter().map(own).collect(), sources.collect())
            }
        };
        memory.nodes = topo::emptied(nodes);
        memory.stack = stack.emptied();
        let cuts: SmallVec<[DetachedOperands; 4]> =
            late.iter().map(|value| value.cut(edges)).collect();
        drop(engine);
        cuts.into_iter().for_each(DetachedOperands::drop_operands);
        Graph {
            leaves,
            key,
            found,
            nodes: owned,
            targets,
            held,
            numbers,
            memory: Some(memory),
        }
    }

    /// Returns the plan for this graph, from the cache or made on a miss.
    ///
    /// # Errors
    ///
    /// If an op needs the values of several devices, which only a program for devices has.
    pub(crate) fn plan(&self) -> Result<Arc<CachedPlan>> {
        if let Some(entry) = &self.found {
            events::emit(Event::Hit { plan: entry.id });
            return Ok(entry.clone());
        }
        let lowered = self.lower();
        let mut eqns = lowered.program.eqns.iter();
        if let Some(op) = eqns.find_map(|eqn| collective_in(&lowered.program, eqn)) {
            return Err(ShardingFault::Outside.into_error(op.def().name()));
        }
        let plan = Plan::new(&lowered);
        let entry = CachedPlan::new(&self.key, plan, lowered);
        Ok(Engine::lock().cache.insert(entry))
    }

    /// Describes how the graph differs from a cached entry, or returns `None` if it does not.
    ///
    /// The graph must come from [`Graph::unseen`].
    pub(crate) fn difference(&self, entry: &CachedPlan) -> Option<String> {
        let other = !entry.is_for(&self.key);
        other.then(|| entry.difference(&self.lower(), self.leaves.len()))
    }

    /// Lowers the graph to a program. The plan must not have been found.
    pub(crate) fn lower(&self) -> Lowered {
        let mut lowering = Lowering::default();
        self.leaves
            .iter()
            .for_each(|leaf| lowering.leaf(&leaf.aval));
        for (node, at) in &self.nodes {
            lowering.node(node, args(&self.key[*at..]));
        }
        let lowered = lowering.finish(&self.targets);
        Lowered {
            program: pass::without_rules(lowered.program),
            ..lowered
        }
    }
}

impl Graph {
    /// Describes the plan of the graph. Only for a graph made by [`Graph::unseen`].
    pub(crate) fn explain(&self) -> String {
        let lowered = self.lower();
        let plan = Plan::new(&lowered);
        plan.explain(Some(&plan.program(&lowered.program)))
    }
}

/// Returns the positions of the numbers among the nodes that had other values in the same ops before.
#[cold]
fn changing_numbers(
    nodes: &[(&Shared, usize)],
    key: &[u64],
    ops_end: usize,
    seen: &mut Numbers,
) -> SmallVec<[u32; 4]> {
    let mut values = SmallVec::new();
    let mut ops = Vec::with_capacity(key.len());
    let ends = nodes.iter().skip(1).map(|(_, at)| *at).chain([ops_end]);
    let powers = nodes.iter().filter(|(node, _)| node.op == Op::Pow);
    let exponents = powers.filter_map(|(_, at)| args(&key[*at..]).get(1).copied());
    let exponents: SmallVec<[Origin; 2]> = exponents.collect();
    for (i, ((node, at), end)) in nodes.iter().zip(ends).enumerate() {
        match (node.op, &node.more) {
            (Op::Scalar, Some(more)) => {
                values.push(hash::words(&more.words));
                if node.is_exponent() && exponents.contains(&Origin::node(i as u32, 0)) {
                    ops.extend_from_slice(&key[*at..end]);
                } else {
                    ops.push(node.op as u64);
                    node.aval.encode(&mut ops);
                }
            }
            _ => ops.extend_from_slice(&key[*at..end]),
        }
    }
    if values.is_empty() {
        return SmallVec::new();
    }
    ops.extend_from_slice(&key[ops_end..]);
    seen.changing(hash::words(&ops), hash::words(key), values)
}

/// Gives numbers their elements, so that a walk ends at them.
fn make_leaves(all: &[Shared], numbers: &[u32]) {
    let numbers = numbers.iter().filter_map(|i| {
        let number = all.get(*i as usize)?;
        let value = &number.more.as_ref()?.statics[0];
        let buffer = Buffer::of_static(value, number.aval.dtype());
        Some((number, Arc::new(buffer)))
    });
    value::realise(numbers);
}

/// Returns the key of a graph that has only some of the targets of the graph with key `key`.
pub(crate) fn key_of_results(key: &[u64], results: &[u32]) -> Vec<u64> {
    let (graph, targets) = key.split_at(key.len() - key[N_TARGETS] as usize);
    let mut part = graph.to_vec();
    part[N_TARGETS] = results.len() as u64;
    part.extend(results.iter().map(|i| targets[*i as usize]));
    part
}

/// Index in a key of the number of targets. The targets are its last words.
const N_TARGETS: usize = 2;

/// Memory of a graph and of the walk that collects it, reused by the next one.
#[derive(Default)]
struct Memory {
    leaves: Vec<Shared>,
    key: Vec<u64>,
    nodes: Vec<(&'static Shared, usize)>,
    stack: Stack<'static>,
}

thread_local! {
    static MEMORY: Cell<Option<Box<Memory>>> = const { Cell::new(None) };
}

/// Largest capacity of a key whose memory is kept.
const MOST: usize = 1 << 18;

impl Memory {
    fn take() -> Box<Memory> {
        // Thread-locals are gone while a thread exits.
        let kept = MEMORY.try_with(Cell::take).ok().flatten();
        kept.unwrap_or_default()
    }

    fn keep(self: Box<Memory>) {
        // Thread-locals are gone while a thread exits; the memory is then dropped.
        let _ = MEMORY.try_with(|kept| kept.set(Some(self)));
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.leaves.drain(..).for_each(value::drop_handle);
        if let Some(mut memory) = self.memory.take()
            && self.key.capacity() <= MOST
        {
            self.key.clear();
            memory.key = std::mem::take(&mut self.key);
            memory.leaves = std::mem::take(&mut self.leaves);
            memory.keep();
        }
    }
}

/// Walk that ends at values that are realised or promised by a call.
struct PendingWalk<'a> {
    epoch: u64,
    edges: &'a Edges,
    leaves: Vec<Shared>,
    key: Vec<u64>,
    nodes: Vec<(&'a Shared, usize)>,
    /// Results of ops with several results.
    parts: Vec<&'a Shared>,
    /// Leaves that are ready and still have an op, which a transform needed until a moment ago.
    late: Vec<Shared>,
}

impl PendingWalk<'_> {
    /// Returns the held values: intermediate values with handles outside of the walk.
    ///
    /// Values that are free to compute are left out. A view that keeps all elements is replaced by
    /// its operand.
    fn held(&self, targets: &[Shared]) -> HeldValues {
        targets.iter().for_each(|t| t.stamp.mark_asked_for());
        let mut held = HeldValues::new();
        // In reverse, consumers precede producers, so an operand marked by a view is met later.
        for (value, _) in self.nodes.iter().rev() {
            let has_parts = value.more.as_ref().is_some_and(|m| !m.outs.is_empty());
            if has_parts || !value.stamp.is_held(Shared::strong_count(value)) {
                continue;
            }
            match (value.op.is_view(), value.operands(self.edges)) {
                (false, _) => held.push(Shared::clone(value)),
                // A constant.
                (true, []) => {}
                (true, [x, ..]) if is_leaf(x) => {}
                (true, [x, ..]) if value.aval.numel() < x.aval.numel() => {
                    held.push(Shared::clone(value));
                }
                (true, [x, ..]) => x.stamp.mark_held(),
            }
        }
        held.reverse();
        let parts = self.parts.iter().filter(|part| {
            let of_leaf = match part.producer(self.edges) {
                Producer::Part(op, _) => {
                    op.op.is_view() && op.operands(self.edges).iter().all(is_leaf)
                }
                _ => false,
            };
            !of_leaf && part.stamp.is_held(Shared::strong_count(part))
        });
        held.extend(parts.map(|part| Shared::clone(part)));
        held
    }
}

/// Returns whether the last walk that met a value ended there.
fn is_leaf(value: &Shared) -> bool {
    matches!(value.stamp.last().kind(), OriginKind::Leaf(_))
}

impl<'a> Walker<'a> for PendingWalk<'a> {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    #[inline(always)]
    fn find(&mut self, value: &'a Shared, stack: &mut Stack<'a>) {
        let there = value.has_elements();
        match value.producer(self.edges) {
            Producer::Op(args) if !there => stack.push(value, value, 0, args),
            Producer::Part(op, out) if !there => match op.stamp.get(self.epoch).map(Origin::kind) {
                Some(OriginKind::Node(node, _)) => {
                    value.stamp.set(self.epoch, Origin::node(node, out));
                    self.parts.push(value);
                }
                _ => stack.push(value, op, out, op.operands(self.edges)),
            },
            producer => {
                if !matches!(producer, Producer::Nothing) {
                    self.late.push(value.clone());
                }
                let leaf = Origin::leaf(self.leaves.len() as u32);
                value.stamp.set(self.epoch, leaf);
                self.leaves.push(value.clone());
            }
        }
    }

    #[inline(always)]
    fn finish(&mut self, node: &WalkNode<'a>) {
        let number = self.nodes.len() as u32;
        node.op.stamp.set(self.epoch, Origin::node(number, 0));
        if !Shared::ptr_eq(node.op, node.value) {
            let source = Origin::node(number, node.out);
            node.value.stamp.set(self.epoch, source);
            self.parts.push(node.value);
        }
        node.args.iter().for_each(|arg| arg.stamp.count_edge());
        self.nodes.push((node.op, self.key.len()));
        encode(node.op, node.args, &mut self.key);
    }
}

/// Corrects the depths of a value and of the pending values it depends on, and returns its depth.
///
/// An op computes its depth from its operands when it is recorded. The depth becomes too large when
/// these operands are realised later, and ops recorded on top would inherit the excess.
pub(crate) fn correct_depths(value: &Shared) -> u32 {
    let mut memory = Memory::take();
    let mut stack = std::mem::take(&mut memory.stack).emptied();
    let mut engine = Engine::lock();
    let epoch = engine.next_epoch();
    let mut depths = DepthWalk {
        epoch,
        edges: &engine.edges,
    };
    walk(std::slice::from_ref(value), &mut depths, &mut stack);
    memory.stack = stack.emptied();
    drop(engine);
    memory.keep();
    value.depth()
}

/// Length of a chain that is examined without an allocation.
const CHAIN: usize = 512;

/// Returns a value of the longest pending chain that ends at `end`, at a depth of at least `least`.
///
/// A loop that repeats its ops is cut at the same op in each turn, so that the parts of its chain
/// share a plan: the choice depends on the ops before a value only. The depths must be correct.
pub(crate) fn cut_of_chain(end: &Shared, least: u32) -> Shared {
    let engine = Engine::lock();
    let mut chain: SmallVec<[(&Shared, u64); CHAIN]> = SmallVec::new();
    let mut next = Some(end);
    while let Some(value) = next {
        let (op, out, args) = match value.producer(&engine.edges) {
            Producer::Op(args) if !value.has_elements() => (value, 0, args),
            Producer::Part(op, out) if !value.has_elements() => {
                (op, out, op.operands(&engine.edges))
            }
            _ => break,
        };
        let statics = op.more.as_ref().map_or(0, |more| hash::words(&more.words));
        let words = [op.op as u64, u64::from(out), statics, args.len() as u64];
        chain.push((value, hash::words(&words)));
        next = args.iter().rev().max_by_key(|arg| arg.depth());
    }
    // Each op moves the word by two bits, so that it depends on the last 32 ops.
    let (mut before, mut cut, mut least_word) = (0u64, end, u64::MAX);
    for (value, op) in chain.iter().rev() {
        before = (before << 2).wrapping_add(*op);
        if value.depth() >= least && before <= least_word {
            (cut, least_word) = (value, before);
        }
    }
    Shared::clone(cut)
}

/// Walk that recomputes the depth of each pending op.
struct DepthWalk<'a> {
    epoch: u64,
    edges: &'a Edges,
}

impl<'a> Walker<'a> for DepthWalk<'a> {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn find(&mut self, value: &'a Shared, stack: &mut Stack<'a>) {
        match value.producer(self.edges) {
            Producer::Op(args) if !value.has_elements() => stack.push(value, value, 0, args),
            Producer::Part(op, out) if !value.has_elements() => {
                stack.push(value, op, out, op.operands(self.edges));
            }
            // The depths of pending calls are exact.
            _ => value.stamp.set(self.epoch, Origin::default()),
        }
    }

    fn finish(&mut self, node: &WalkNode<'a>) {
        let depths = node.args.iter().map(|arg| arg.depth());
        let depth = depths.max().unwrap_or(0).saturating_add(1);
        for value in [node.op, node.value] {
            value.set_depth(depth);
            value.stamp.set(self.epoch, Origin::default());
        }
    }
}

/// Appends the encoding of an op whose operands are stamped.
///
/// An op is one word if possible, else a header and sections.
///
/// The header holds the lengths of the sections. The top two bits distinguish the encodings: `10`
/// is one word, `0x` a header, `11` a header followed by its lengths.
#[inline]
pub(crate) fn encode(op: &Value, args: &[Shared], key: &mut Vec<u64>) {
    if op.more.is_none()
        && let Some(word) = short(op.op, args)
    {
        key.push(word);
        return;
    }
    let n_likes = op.more.as_ref().map_or(0, |more| more.likes.len());
    let lens = [op.outs().len(), args.len(), n_likes].map(|n| n as u64);
    let [outs, data, likes] = lens;
    match lens.iter().all(|n| *n < 1 << 15) {
        true => key.push(op.op as u64 | outs << 16 | data << 32 | likes << 48),
        false => {
            key.push(op.op as u64 | u64::MAX << 16);
            key.extend(lens);
        }
    }
    key.extend(args.iter().map(|arg| arg.stamp.last().encode()));
    if let Some(more) = &op.more {
        key.extend_from_slice(&more.words);
    }
}

/// Number of bits of an origin in the one-word encoding.
///
/// From the lowest bit: two origins, the op, the number of operands, and the tag `10`.
const BITS: u32 = 26;

const SHORT: u64 = 0b10 << 62;

// The op must fit between the two origins and the number of operands.
const _: () = assert!(Op::ALL.len() <= 1 << (60 - 2 * BITS));

/// Encodes an op in one word, if its operands have small numbers.
///
/// Returns `None` unless the op has one or two operands. The caller checks that it has one result
/// and no statics.
#[inline]
fn short(op: Op, args: &[Shared]) -> Option<u64> {
    let word = |n: u64, x: u64, y: u64| {
        let small = (x | y) >> BITS == 0;
        small.then_some(SHORT | n << 60 | (op as u64) << (2 * BITS) | y << BITS | x)
    };
    let source = |arg: &Shared| arg.stamp.last().encode();
    match args {
        [x] => word(1, source(x), 0),
        [x, y] => word(2, source(x), source(y)),
        _ => None,
    }
}

/// Decodes the operands of the op at the start of `key`.
pub(crate) fn args(key: &[u64]) -> SmallVec<[Origin; 4]> {
    let header = key[0];
    let sources = match header >> 62 {
        0b10 => {
            let source = |i: u32| Origin::decode(header >> (BITS * i) & ((1 << BITS) - 1));
            return (0..(header >> 60 & 0b11) as u32).map(source).collect();
        }
        0b11 => &key[4..][..key[2] as usize],
        _ => &key[1..][..(header >> 32 & 0xffff) as usize],
    };
    sources.iter().map(|word| Origin::decode(*word)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Graph, ResultSet, args, short};
    use crate::Tensor;
    use crate::graph::topo::Origin;
    use gradloom_ir::Op;

    #[test]
    fn an_op_with_small_operand_numbers_is_encoded_in_one_word() {
        let (x, y) = (Tensor::from(1.0f32), Tensor::from(2.0f32));
        let both = [x.0.clone(), y.0.clone()];
        let word = |a, b| {
            x.0.stamp.set(1, a);
            y.0.stamp.set(1, b);
            short(Op::Mul, &both)
        };
        let most = (1 << 25) - 1;
        for (a, b) in [
            (Origin::leaf(0), Origin::node(7, 0)),
            (Origin::node(most, 0), Origin::leaf(most)),
        ] {
            let word = word(a, b).unwrap();
            assert_eq!(args(&[word]).as_slice(), [a, b]);
            let unary = short(Op::Tanh, &both[..1]).unwrap();
            assert_eq!(args(&[unary]).as_slice(), [a]);
        }
        for far in [
            Origin::leaf(most + 1),
            Origin::node(most + 1, 0),
            Origin::node(0, 1),
        ] {
            assert_eq!(word(Origin::leaf(0), far), None);
            assert_eq!(word(far, Origin::leaf(0)), None);
        }
    }

    #[test]
    fn any_number_of_operands_can_be_decoded_from_the_key() {
        let x = Tensor::from([1.0f32]);
        let tanh = x.tanh();
        for n in [3, 40_000] {
            let all: Vec<&Tensor> = (0..n).map(|i| [&x, &tanh][i % 2]).collect();
            let joined = Tensor::concat(&all, 0);
            let program = Graph::unseen(std::slice::from_ref(&joined.0), ResultSet::Targets)
                .lower()
                .program;
            let eqn = &program.eqns[1];
            let (x, tanh) = (program.params[0], program.eqns[0].out());
            let expected: Vec<_> = (0..n).map(|i| [x, tanh][i % 2]).collect();
            assert_eq!(eqn.data(), expected);
        }
    }
}
