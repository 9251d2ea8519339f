//! Evaluation: from promises to elements.

use crate::cache::{Cache, Entry};
use crate::call;
use crate::events::{self, Event};
use crate::kernel::Leaf;
use crate::lower::{Lowered, Lowering};
use crate::node::{Behind, Look, Value};
use crate::plan::{Given, Leaves, Plan};
use crate::walk::{Args, Found, Kind, Node, Source, Stack, Walker, walk};
use crate::{Result, Tree};
use gradloom_ir::pass;
use std::cell::Cell;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// What evaluations share. Walks need the lock for the stamps on nodes, and look-ups for the cache; plans are
/// made and run without it.
pub(crate) struct Engine {
    epoch: u64,
    pub(crate) cache: Cache,
}

static ENGINE: Mutex<Engine> = Mutex::new(Engine {
    epoch: 0,
    cache: Cache::new(),
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

/// Computes all tensors of a tree together, in one plan. What has been computed before stays as it is.
///
/// Equal work in different targets is done once, so this is better than to read one tensor after another.
///
/// ```
/// use gradloom::{Tensor, evaluate};
///
/// let x = Tensor::from([1.0f32, 2.0, 3.0]);
/// let (y, z) = (x.tanh(), x.tanh() * 2.0);
/// evaluate(&[y.clone(), z]).unwrap();
/// assert!(y.is_realised());
/// ```
///
/// # Errors
///
/// If the data is not what an op takes, such as a label that is no class, or if memory is short. Then what has
/// failed stays a promise, and the evaluation can be tried again.
pub fn evaluate(targets: &impl Tree) -> Result<()> {
    call::impure();
    let mut recorded: Vec<Arc<Value>> = Vec::new();
    let mut called = Ok(());
    targets.visit(&mut |leaf| {
        if called.is_ok()
            && let Err(error) = run_call(&leaf.0, &mut recorded)
        {
            called = Err(error);
        }
    });
    called?;
    run_ops(&recorded)
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
pub fn explain(targets: &impl Tree) -> String {
    let (mut recorded, mut calls) = (Vec::new(), Vec::new());
    targets.visit(&mut |leaf| match leaf.0.look() {
        Look::Here(_) => {}
        Look::Op => recorded.push(leaf.0.clone()),
        Look::Call(_) => calls.push(leaf.0.clone()),
    });
    let graph = Graph::of(&recorded);
    calls.extend(graph.leaves.iter().cloned());
    let mut texts = call::explain(calls);
    if texts.is_empty() || !recorded.is_empty() {
        let lowered = graph.lower();
        let plan = Plan::new(&lowered);
        texts.push(plan.explain(Some(&pass::simplify(lowered.program))));
    }
    texts.join("\n")
}

/// Computes values, of which none was realised a moment ago.
pub(crate) fn realise(targets: &[Arc<Value>]) -> Result<()> {
    call::impure();
    let mut recorded: Vec<Arc<Value>> = Vec::new();
    for target in targets {
        run_call(target, &mut recorded)?;
    }
    run_ops(&recorded)
}

/// Computes a value that a call promises. One that an op promises is added to a list.
fn run_call(target: &Arc<Value>, recorded: &mut Vec<Arc<Value>>) -> Result<()> {
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

/// Computes values that ops promise.
fn run_ops(recorded: &[Arc<Value>]) -> Result<()> {
    if recorded.is_empty() {
        return Ok(());
    }
    let graph = Graph::of(recorded);
    let entry = graph.plan();
    let leaves = graph.leaves.iter().map(elements);
    let mut buffers = Vec::new();
    let leaves = leaves.collect::<Result<Leaves<'_>>>()?;
    entry.plan.run(&leaves, &mut Given::new(), &mut buffers)?;
    events::emit(Event::Ran { plan: entry.id });
    for (target, buffer) in recorded.iter().zip(buffers) {
        target.realise(buffer.expect("nobody has taken a result"));
    }
    Ok(())
}

/// The elements of a leaf.
fn elements(leaf: &Arc<Value>) -> Result<Leaf<'_>> {
    loop {
        match leaf.look() {
            Look::Here(buffer) => return Ok(Leaf::Held(buffer)),
            Look::Call(node) => call::run(node)?,
            Look::Op => unreachable!("a graph goes on where an op is"),
        }
    }
}

/// The part of the graph between targets and leaves: values that are realised or that a call computes.
#[derive(Default)]
pub(crate) struct Graph {
    pub(crate) leaves: Vec<Arc<Value>>,
    targets: Vec<Source>,
    ops: Ops,
}

/// The ops of a graph.
#[derive(Default)]
struct Ops {
    /// The values that have the ops, and where the sources of their operands are in the key.
    nodes: Vec<(Arc<Value>, Range<usize>)>,
    /// Everything that the plan depends on, and nothing else.
    key: Vec<u64>,
}

thread_local! {
    /// The memory of the last graph and of the walk to it, for the next.
    static SCRATCH: Cell<Option<Box<(Ops, Stack)>>> = const { Cell::new(None) };
}

/// A longer key gives its memory back.
const MOST_WORDS: usize = 1 << 18;

impl Drop for Graph {
    fn drop(&mut self) {
        let mut ops = std::mem::take(&mut self.ops);
        ops.nodes.clear();
        ops.key.clear();
        // Where a thread ends there is no next.
        let _ = SCRATCH.try_with(|scratch| {
            let mut last = scratch.take().unwrap_or_default();
            if ops.key.capacity() <= MOST_WORDS {
                last.0 = ops;
            }
            scratch.set(Some(last));
        });
    }
}

impl Graph {
    pub(crate) fn of(targets: &[Arc<Value>]) -> Graph {
        let last = SCRATCH.try_with(Cell::take).ok().flatten();
        let mut last = last.unwrap_or_default();
        let mut graph = Graph::default();
        graph.ops = std::mem::take(&mut last.0);
        // The lengths of the parts go in front, so that no part can be read as the beginning of the next.
        graph.ops.key.extend([0; 3]);
        // The lock orders walks, which leave stamps on the values.
        let mut engine = Engine::lock();
        let epoch = engine.next_epoch();
        let mut walking = Walking {
            epoch,
            graph: &mut graph,
        };
        graph.targets = walk(targets, &mut walking, &mut last.1);
        drop(engine);
        let _ = SCRATCH.try_with(|scratch| scratch.set(Some(last)));
        let Graph {
            leaves,
            targets,
            ops,
        } = &mut graph;
        for leaf in &*leaves {
            leaf.aval.encode(&mut ops.key);
        }
        ops.key.extend(targets.iter().map(|s| s.encode()));
        let lens = [ops.nodes.len(), leaves.len(), targets.len()];
        ops.key[..3].copy_from_slice(&lens.map(|n| n as u64));
        graph
    }

    /// The plan for this graph: from the cache, or a new one.
    pub(crate) fn plan(&self) -> Arc<Entry> {
        let found = Engine::lock().cache.find(&self.ops.key);
        if let Some(entry) = found {
            events::emit(Event::Hit { plan: entry.id });
            return entry;
        }
        let lowered = self.lower();
        let plan = Plan::new(&lowered);
        let entry = Entry::new(&self.ops.key, plan, lowered);
        Engine::lock().cache.insert(entry)
    }

    fn lower(&self) -> Lowered {
        let mut lowering = Lowering::default();
        self.leaves
            .iter()
            .for_each(|leaf| lowering.leaf(&leaf.aval));
        for (node, args) in &self.ops.nodes {
            let args = self.ops.key[args.clone()].iter();
            lowering.node(node, args.map(|word| Source::decode(*word)));
        }
        lowering.finish(&self.targets)
    }
}

/// A walk that ends where the elements are there or come from a call.
struct Walking<'a> {
    epoch: u64,
    graph: &'a mut Graph,
}

impl Walking<'_> {
    fn leaf(&mut self, value: Arc<Value>) -> Found {
        let leaf = Source::leaf(self.graph.leaves.len() as u32);
        value.stamp.set(self.epoch, leaf);
        self.graph.leaves.push(value);
        Found::Numbered(leaf)
    }
}

impl Walker for Walking<'_> {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn find(&mut self, value: Arc<Value>, args: &mut Args<'_>) -> Found {
        if let Some(source) = value.stamp.get(self.epoch) {
            return Found::Numbered(source);
        }
        if value.has_elements() {
            // Lets go of what a transform has needed until now.
            value.settle();
            return self.leaf(value);
        }
        match value.behind(|arg| args.push(arg)) {
            Behind::Nothing => self.leaf(value),
            Behind::Part(of, out) => match of.stamp.get(self.epoch).map(Source::kind) {
                Some(Kind::Node(node, _)) => Found::Numbered(Source::node(node, out)),
                _ => Found::Behind(Node::behind(value, Behind::Part(of, out), args)),
            },
            Behind::Op => Found::Behind(Node::behind(value, Behind::Op, args)),
        }
    }

    fn finish(&mut self, node: Node, args: impl ExactSizeIterator<Item = Source>) -> Source {
        let ops = &mut self.graph.ops;
        let (index, n_args) = (ops.nodes.len() as u32, args.len());
        let Node { value, of, out } = node;
        let source = Source::node(index, out);
        value.stamp.set(self.epoch, source);
        let op = match of {
            Some(of) => {
                of.stamp.set(self.epoch, Source::node(index, 0));
                of
            }
            None => value,
        };
        let n_likes = op.more.as_ref().map_or(0, |more| more.likes.len());
        let lens = [op.outs().len(), n_args, n_likes].map(|n| n as u64);
        let [outs, data, likes] = lens;
        let short = outs.max(data).max(likes) < u64::from(u16::MAX);
        if short {
            ops.key
                .push(op.op as u64 | outs << 16 | data << 32 | likes << 48);
        } else {
            ops.key.push(op.op as u64 | u64::MAX << 16);
            ops.key.extend(lens);
        }
        let first = ops.key.len();
        ops.key.extend(args.map(Source::encode));
        let range = first..first + n_args;
        if let Some(more) = &op.more {
            more.statics.iter().for_each(|s| s.encode(&mut ops.key));
            more.likes.iter().for_each(|l| l.encode(&mut ops.key));
        }
        ops.nodes.push((op, range));
        source
    }
}
