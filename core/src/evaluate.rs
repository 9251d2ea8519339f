//! Evaluation: from promises to elements.

use crate::cache::{Cache, Entry};
use crate::call;
use crate::events::{self, Event};
use crate::kernel::Leaf;
use crate::lower::{Lowered, Lowering};
use crate::node::{Look, OpNode, Value};
use crate::plan::{Given, Leaves, Plan};
use crate::walk::{Found, Source, Walker, walk};
use crate::{Result, Tree};
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
        if called.is_ok() {
            called = run_call(&leaf.0, &mut recorded);
        }
    });
    called?;
    run_ops(&recorded)
}

/// Says how [`evaluate`] would compute all tensors of a tree together, as text: the tasks of the plan in order, with the ops
/// that run in one loop, what each reads and writes, and how much memory the intermediate values share. Nothing is computed.
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
        Look::Op(..) => recorded.push(leaf.0.clone()),
        Look::Call(_) => calls.push(leaf.0.clone()),
    });
    let graph = Graph::of(&recorded);
    calls.extend(graph.leaves.iter().cloned());
    let mut texts = call::explain(calls);
    if texts.is_empty() || !recorded.is_empty() {
        texts.push(Plan::new(&graph.lower()).explain());
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
            Look::Op(..) => {
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
            Look::Op(..) => unreachable!("a graph goes on where an op is"),
        }
    }
}

/// The part of the graph between targets and leaves: values that are realised or that a call computes.
pub(crate) struct Graph {
    nodes: Vec<Arc<OpNode>>,
    /// The sources of the operands of all nodes, one after another.
    args: Vec<Source>,
    pub(crate) leaves: Vec<Arc<Value>>,
    targets: Vec<Source>,
    /// Everything that the plan depends on, and nothing else.
    key: Vec<u64>,
}

impl Graph {
    pub(crate) fn of(targets: &[Arc<Value>]) -> Graph {
        struct Walking {
            epoch: u64,
            graph: Graph,
        }
        impl Walker for Walking {
            fn find(&mut self, value: &Arc<Value>) -> Found {
                if let Some(leaf) = value.stamp.get(self.epoch) {
                    return Found::Numbered(Source::Leaf(leaf));
                }
                match value.look() {
                    Look::Op(node, out) => match node.stamp.get(self.epoch) {
                        Some(index) => Found::Numbered(Source::Node(index, out as u32)),
                        None => Found::Behind(node),
                    },
                    Look::Here(_) | Look::Call(_) => {
                        let leaf = self.graph.leaves.len() as u32;
                        value.stamp.set(self.epoch, leaf);
                        self.graph.leaves.push(value.clone());
                        Found::Numbered(Source::Leaf(leaf))
                    }
                }
            }

            fn finish(&mut self, node: Arc<OpNode>, args: &[Source]) {
                node.stamp.set(self.epoch, self.graph.nodes.len() as u32);
                let key = &mut self.graph.key;
                key.push(
                    node.op as u64 | (node.outs.len() as u64) << 16 | (args.len() as u64) << 40,
                );
                node.statics.iter().for_each(|s| s.encode(key));
                key.extend(args.iter().map(|s| s.encode()));
                key.push(node.likes.len() as u64);
                node.likes.iter().for_each(|aval| aval.encode(key));
                self.graph.args.extend(args);
                self.graph.nodes.push(node);
            }
        }
        let graph = Graph {
            nodes: Vec::new(),
            args: Vec::new(),
            leaves: Vec::new(),
            targets: Vec::new(),
            // The lengths of the parts go in front, so that no part can be read as the beginning of the next.
            key: vec![0; 3],
        };
        // The lock orders walks, which leave stamps on the nodes.
        let mut engine = Engine::lock();
        let epoch = engine.next_epoch();
        let mut walking = Walking { epoch, graph };
        let sources = walk(targets, &mut walking);
        drop(engine);
        let mut graph = walking.graph;
        graph
            .leaves
            .iter()
            .for_each(|leaf| leaf.aval.encode(&mut graph.key));
        graph.key.extend(sources.iter().map(|s| s.encode()));
        let lens = [graph.nodes.len(), graph.leaves.len(), sources.len()];
        graph.key[..3].copy_from_slice(&lens.map(|n| n as u64));
        graph.targets = sources;
        graph
    }

    /// The plan for this graph: from the cache, or a new one.
    pub(crate) fn plan(&self) -> Arc<Entry> {
        let found = Engine::lock().cache.find(&self.key);
        if let Some(entry) = found {
            events::emit(Event::Hit { plan: entry.id });
            return entry;
        }
        let lowered = self.lower();
        let plan = Plan::new(&lowered);
        let entry = Entry::new(&self.key, plan, lowered);
        Engine::lock().cache.insert(entry)
    }

    fn lower(&self) -> Lowered {
        let mut lowering = Lowering::default();
        self.leaves
            .iter()
            .for_each(|leaf| lowering.leaf(&leaf.aval));
        let mut args = self.args.iter().copied();
        for node in &self.nodes {
            lowering.node(node, args.by_ref().take(node.args.len()));
        }
        lowering.finish(&self.targets)
    }
}
