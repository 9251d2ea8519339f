//! What is to be computed: the part of the graph between targets and leaves, and its key in the cache of plans.

use crate::cache::Entry;
use crate::evaluate::Engine;
use crate::events::{self, Event};
use crate::lower::{Lowered, Lowering};
use crate::node::{self, Behind, Cut, Edges, Shared, Value};
use crate::plan::Plan;
use crate::walk::{self, Kind, Node, Source, Stack, Walker, walk};
use gradloom_ir::Op;
use gradloom_ir::pass::{self, is_view};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;

/// The part of the graph between targets and leaves: values that are realised or that a call computes.
pub(crate) struct Graph {
    pub(crate) leaves: Vec<Shared>,
    /// Everything that the plan depends on, and nothing else.
    key: Vec<u64>,
    /// The plan, if there is one.
    found: Option<Arc<Entry>>,
    /// If there is none: the values that have the ops, in order, and where each is in the key.
    nodes: Vec<(Shared, usize)>,
    targets: Vec<Source>,
    /// Values between targets and leaves that are results, too, after the targets.
    pub(crate) held: Held,
    memory: Option<Box<Memory>>,
}

/// Values that are results although nobody has asked for them. Most graphs have few.
type Held = SmallVec<[Shared; 4]>;

/// Which results a graph has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Results {
    /// The targets.
    Targets,
    /// The targets, and the values below them that something outside of the graph holds: the user, or an op that is not
    /// asked for. They would otherwise be computed again when they are asked for.
    TargetsAndHeld,
}

/// Whether the plan is looked up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LookUp {
    Yes,
    No,
}

impl Graph {
    /// The graph, whose plan is looked up.
    pub(crate) fn of(targets: &[Shared], results: Results) -> Graph {
        Graph::new(targets, results, LookUp::Yes)
    }

    /// The same without a look at the cache.
    pub(crate) fn unseen(targets: &[Shared], results: Results) -> Graph {
        Graph::new(targets, results, LookUp::No)
    }

    fn new(targets: &[Shared], results: Results, look_up: LookUp) -> Graph {
        let mut memory = Memory::take();
        let mut stack = std::mem::take(&mut memory.stack).emptied();
        // The lock orders walks, which leave stamps on the values, and lets them follow edges.
        let mut engine = Engine::lock();
        let epoch = engine.next_epoch();
        let Engine { edges, cache, .. } = &mut *engine;
        let mut walking = Walking {
            epoch,
            edges: &*edges,
            leaves: std::mem::take(&mut memory.leaves),
            key: std::mem::take(&mut memory.key),
            nodes: walk::emptied(std::mem::take(&mut memory.nodes)),
            parts: Vec::new(),
            late: Vec::new(),
        };
        // The lengths of the parts go in front, so that no part can be read as the beginning of the next.
        walking.key.extend([0; 3]);
        walk(targets, &mut walking, &mut stack);
        let held = match results {
            Results::Targets => Held::new(),
            Results::TargetsAndHeld => walking.held(targets),
        };
        let Walking {
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
        key.extend(sources.clone().map(Source::encode));
        let lens = [nodes.len(), leaves.len(), targets.len() + held.len()];
        key[..3].copy_from_slice(&lens.map(|n| n as u64));
        let found = match look_up {
            LookUp::Yes => cache.find(&key),
            LookUp::No => None,
        };
        let (owned, targets) = match found {
            Some(_) => (Vec::new(), Vec::new()),
            None => {
                let own = |(node, at): &(&Shared, usize)| (Shared::clone(node), *at);
                (nodes.iter().map(own).collect(), sources.collect())
            }
        };
        memory.nodes = walk::emptied(nodes);
        memory.stack = stack.emptied();
        let cuts: SmallVec<[Cut; 4]> = late.iter().map(|value| value.cut(edges)).collect();
        drop(engine);
        cuts.into_iter().for_each(Cut::let_go);
        Graph {
            leaves,
            key,
            found,
            nodes: owned,
            targets,
            held,
            memory: Some(memory),
        }
    }

    /// The plan for this graph: from the cache, or a new one.
    pub(crate) fn plan(&self) -> Arc<Entry> {
        if let Some(entry) = &self.found {
            events::emit(Event::Hit { plan: entry.id });
            return entry.clone();
        }
        let lowered = self.lower();
        let plan = Plan::new(&lowered);
        let entry = Entry::new(&self.key, plan, lowered);
        Engine::lock().cache.insert(entry)
    }

    /// A difference from what a plan is for. The graph has not been looked up.
    pub(crate) fn difference(&self, entry: &Entry) -> Option<String> {
        let other = !entry.is_for(&self.key);
        other.then(|| entry.difference(&self.lower(), self.leaves.len()))
    }

    /// The program that it is. The plan has not been found.
    pub(crate) fn lower(&self) -> Lowered {
        let mut lowering = Lowering::default();
        self.leaves
            .iter()
            .for_each(|leaf| lowering.leaf(&leaf.aval));
        for (node, at) in &self.nodes {
            lowering.node(node, args(&self.key[*at..]));
        }
        lowering.finish(&self.targets)
    }
}

impl Graph {
    /// What its plan does, for people. The graph has not been looked up.
    pub(crate) fn explain(&self) -> String {
        let lowered = self.lower();
        let plan = Plan::new(&lowered);
        plan.explain(Some(&pass::simplify(lowered.program)))
    }
}

/// The key of a graph with some of the targets of another, which has the key `key`.
pub(crate) fn key_of_results(key: &[u64], results: &[u32]) -> Vec<u64> {
    let (graph, targets) = key.split_at(key.len() - key[N_TARGETS] as usize);
    let mut part = graph.to_vec();
    part[N_TARGETS] = results.len() as u64;
    part.extend(results.iter().map(|i| targets[*i as usize]));
    part
}

/// Where a key says how many targets there are: they are its last words.
const N_TARGETS: usize = 2;

/// The memory of a graph and of the walk to it, for the next.
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

/// What has more room than this is not kept.
const MOST: usize = 1 << 18;

impl Memory {
    fn take() -> Box<Memory> {
        // Where a thread ends there is none.
        let kept = MEMORY.try_with(Cell::take).ok().flatten();
        kept.unwrap_or_default()
    }

    fn keep(self: Box<Memory>) {
        // Where a thread ends there is no next.
        let _ = MEMORY.try_with(|kept| kept.set(Some(self)));
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.leaves.drain(..).for_each(node::let_go);
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

/// A walk that ends where the elements are there or come from a call.
struct Walking<'a> {
    epoch: u64,
    edges: &'a Edges,
    leaves: Vec<Shared>,
    key: Vec<u64>,
    nodes: Vec<(&'a Shared, usize)>,
    /// Results of ops that have several.
    parts: Vec<&'a Shared>,
    /// Leaves whose ops a transform has needed until now.
    late: Vec<Shared>,
}

impl Walking<'_> {
    /// The values that the walk has come by, that something outside of it holds, and that cost something to compute. For a view
    /// that moves elements without dropping any, it is what it views.
    fn held(&self, targets: &[Shared]) -> Held {
        targets.iter().for_each(|t| t.stamp.mark_asked_for());
        let mut held = Held::new();
        // Consumers come before producers, so what a view passes on is met later.
        for (value, _) in self.nodes.iter().rev() {
            let has_parts = value.more.as_ref().is_some_and(|m| !m.outs.is_empty());
            if has_parts || !value.stamp.is_held(Shared::strong_count(value)) {
                continue;
            }
            match (is_view(value.op), value.operands(self.edges)) {
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
            let of_leaf = match part.behind(self.edges) {
                Behind::Part(op, _) => {
                    is_view(op.op) && op.operands(self.edges).iter().all(is_leaf)
                }
                _ => false,
            };
            !of_leaf && part.stamp.is_held(Shared::strong_count(part))
        });
        held.extend(parts.map(|part| Shared::clone(part)));
        held
    }
}

/// Whether the last walk that met a value ended there.
fn is_leaf(value: &Shared) -> bool {
    matches!(value.stamp.last().kind(), Kind::Leaf(_))
}

impl<'a> Walker<'a> for Walking<'a> {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    #[inline(always)]
    fn find(&mut self, value: &'a Shared, stack: &mut Stack<'a>) {
        let there = value.has_elements();
        match value.behind(self.edges) {
            Behind::Op(args) if !there => stack.push(value, value, 0, args),
            Behind::Part(op, out) if !there => match op.stamp.get(self.epoch).map(Source::kind) {
                Some(Kind::Node(node, _)) => {
                    value.stamp.set(self.epoch, Source::node(node, out));
                    self.parts.push(value);
                }
                _ => stack.push(value, op, out, op.operands(self.edges)),
            },
            behind => {
                if !matches!(behind, Behind::Nothing) {
                    self.late.push(value.clone());
                }
                let leaf = Source::leaf(self.leaves.len() as u32);
                value.stamp.set(self.epoch, leaf);
                self.leaves.push(value.clone());
            }
        }
    }

    #[inline(always)]
    fn finish(&mut self, node: &Node<'a>) {
        let number = self.nodes.len() as u32;
        node.op.stamp.set(self.epoch, Source::node(number, 0));
        if !Shared::ptr_eq(node.op, node.value) {
            let source = Source::node(number, node.out);
            node.value.stamp.set(self.epoch, source);
            self.parts.push(node.value);
        }
        node.args.iter().for_each(|arg| arg.stamp.count_edge());
        self.nodes.push((node.op, self.key.len()));
        encode(node.op, node.args, &mut self.key);
    }
}

/// Corrects the depths of a value and of the pending values behind it, and returns that of the value.
///
/// An op gets its depth from its operands when it is recorded. Where these have been computed since, it is too large, and so
/// would be those of all later ops.
pub(crate) fn correct_depths(value: &Shared) -> u32 {
    let mut memory = Memory::take();
    let mut stack = std::mem::take(&mut memory.stack).emptied();
    let mut engine = Engine::lock();
    let epoch = engine.next_epoch();
    let mut depths = Depths {
        epoch,
        edges: &engine.edges,
    };
    walk(std::slice::from_ref(value), &mut depths, &mut stack);
    memory.stack = stack.emptied();
    drop(engine);
    memory.keep();
    value.depth()
}

/// A walk that gives each pending op its depth.
struct Depths<'a> {
    epoch: u64,
    edges: &'a Edges,
}

impl<'a> Walker<'a> for Depths<'a> {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn find(&mut self, value: &'a Shared, stack: &mut Stack<'a>) {
        match value.behind(self.edges) {
            Behind::Op(args) if !value.has_elements() => stack.push(value, value, 0, args),
            Behind::Part(op, out) if !value.has_elements() => {
                stack.push(value, op, out, op.operands(self.edges));
            }
            // Calls that are pending know their depths.
            _ => value.stamp.set(self.epoch, Source::default()),
        }
    }

    fn finish(&mut self, node: &Node<'a>) {
        let depths = node.args.iter().map(|arg| arg.depth());
        let depth = depths.max().unwrap_or(0).saturating_add(1);
        for value in [node.op, node.value] {
            value.set_depth(depth);
            value.stamp.set(self.epoch, Source::default());
        }
    }
}

/// Appends an op whose operands have stamps: in one word if it can, and otherwise in a header and parts, whose lengths the header
/// says. The first two bits of a word say which it is: `10`, or `0` and for long parts `11`.
#[inline]
fn encode(op: &Value, args: &[Shared], key: &mut Vec<u64>) {
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

/// The bits of a source in a short word, whose two sources follow the op, and that the number of operands.
const BITS: u32 = 26;

const SHORT: u64 = 0b10 << 62;

// The op has the bits between two sources and the number of operands.
const _: () = assert!(Op::ALL.len() <= 1 << (60 - 2 * BITS));

/// An op with one result, one or two operands, and nothing else, in one word, if the numbers of the operands are small.
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

/// The operands of the op that a key begins with.
fn args(key: &[u64]) -> SmallVec<[Source; 4]> {
    let header = key[0];
    let sources = match header >> 62 {
        0b10 => {
            let source = |i: u32| Source::decode(header >> (BITS * i) & ((1 << BITS) - 1));
            return (0..(header >> 60 & 0b11) as u32).map(source).collect();
        }
        0b11 => &key[4..][..key[2] as usize],
        _ => &key[1..][..(header >> 32 & 0xffff) as usize],
    };
    sources.iter().map(|word| Source::decode(*word)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Graph, Results, args, short};
    use crate::Tensor;
    use crate::walk::Source;
    use gradloom_ir::Op;

    #[test]
    fn an_op_is_one_word_while_its_operands_have_small_numbers() {
        let (x, y) = (Tensor::from(1.0f32), Tensor::from(2.0f32));
        let both = [x.0.clone(), y.0.clone()];
        let word = |a, b| {
            x.0.stamp.set(1, a);
            y.0.stamp.set(1, b);
            short(Op::Mul, &both)
        };
        let most = (1 << 25) - 1;
        for (a, b) in [
            (Source::leaf(0), Source::node(7, 0)),
            (Source::node(most, 0), Source::leaf(most)),
        ] {
            let word = word(a, b).unwrap();
            assert_eq!(args(&[word]).as_slice(), [a, b]);
            let unary = short(Op::Tanh, &both[..1]).unwrap();
            assert_eq!(args(&[unary]).as_slice(), [a]);
        }
        for far in [
            Source::leaf(most + 1),
            Source::node(most + 1, 0),
            Source::node(0, 1),
        ] {
            assert_eq!(word(Source::leaf(0), far), None);
            assert_eq!(word(far, Source::leaf(0)), None);
        }
    }

    #[test]
    fn operands_are_found_in_the_key_however_many_there_are() {
        let x = Tensor::from([1.0f32]);
        let tanh = x.tanh();
        for n in [3, 40_000] {
            let all: Vec<&Tensor> = (0..n).map(|i| [&x, &tanh][i % 2]).collect();
            let joined = Tensor::concat(&all, 0);
            let program = Graph::unseen(std::slice::from_ref(&joined.0), Results::Targets)
                .lower()
                .program;
            let eqn = &program.eqns[1];
            let (x, tanh) = (program.params[0], program.eqns[0].out());
            let expected: Vec<_> = (0..n).map(|i| [x, tanh][i % 2]).collect();
            assert_eq!(eqn.data(), expected);
        }
    }
}
