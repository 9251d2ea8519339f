//! Evaluation: from promises to elements.

use crate::buffer::Buffer;
use crate::cache::{Cache, Entry};
use crate::events::{self, Event};
use crate::lower::{Lowered, Lowering};
use crate::node::{OpNode, Value};
use crate::plan::Plan;
use crate::walk::{Found, Source, Walker, walk};
use crate::{Aval, Result, Tree};
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
/// If the data is not what an op takes, such as a label that is no class, or if memory is short. Then all
/// targets stay promises, and the evaluation can be tried again.
pub fn evaluate(targets: &impl Tree) -> Result<()> {
    let mut pending: Vec<Arc<Value>> = Vec::new();
    targets.visit(&mut |leaf| {
        if leaf.0.settle().is_none() {
            pending.push(leaf.0.clone());
        }
    });
    realise(&pending)
}

/// Says how [`evaluate`] would compute all tensors of a tree together, as text: the tasks of the plan in order, with the ops
/// that run in one loop, what each reads and writes, and how much memory the intermediate values share. Nothing is computed.
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
    let mut pending: Vec<Arc<Value>> = Vec::new();
    targets.visit(&mut |leaf| {
        if leaf.0.settle().is_none() {
            pending.push(leaf.0.clone());
        }
    });
    let mut engine = Engine::lock();
    let graph = Graph::of(&pending, engine.next_epoch());
    drop(engine);
    Plan::new(&graph.lower()).explain()
}

/// Computes values, of which none was realised a moment ago.
pub(crate) fn realise(targets: &[Arc<Value>]) -> Result<()> {
    if targets.is_empty() {
        return Ok(());
    }
    let mut engine = Engine::lock();
    let graph = Graph::of(targets, engine.next_epoch());
    let hit = engine.cache.find(&graph.key);
    drop(engine);
    let entry = match hit {
        Some(entry) => {
            events::emit(Event::Hit { plan: entry.id });
            entry
        }
        None => {
            let lowered = graph.lower();
            let plan = Plan::new(&lowered);
            let entry = Entry::new(&graph.key, plan, lowered);
            Engine::lock().cache.insert(entry)
        }
    };
    let buffers = entry.plan.run(&graph.buffers)?;
    events::emit(Event::Ran { plan: entry.id });
    for (target, buffer) in targets.iter().zip(buffers) {
        target.realise(buffer);
    }
    Ok(())
}

/// The part of the graph between targets and realised values.
struct Graph {
    nodes: Vec<Arc<OpNode>>,
    /// The sources of the operands of all nodes, one after another.
    args: Vec<Source>,
    leaves: Vec<Aval>,
    buffers: Vec<Arc<Buffer>>,
    targets: Vec<Source>,
    /// Everything that the plan depends on, and nothing else.
    key: Vec<u64>,
}

impl Graph {
    fn of(targets: &[Arc<Value>], epoch: u64) -> Graph {
        struct Walking {
            epoch: u64,
            graph: Graph,
        }
        impl Walker for Walking {
            fn find(&mut self, value: &Arc<Value>) -> Found {
                if let Some(leaf) = value.stamp.get(self.epoch) {
                    return Found::Numbered(Source::Leaf(leaf));
                }
                if let Some(buffer) = value.settle() {
                    let leaf = self.graph.leaves.len() as u32;
                    value.stamp.set(self.epoch, leaf);
                    self.graph.leaves.push(value.aval.clone());
                    self.graph.buffers.push(buffer);
                    return Found::Numbered(Source::Leaf(leaf));
                }
                // Another thread may realise the value at any time, and then let go of the node, so both are
                // read under one lock.
                let state = value.state();
                match (&state.promise, &state.buffer) {
                    (Some((node, out)), None) => match node.stamp.get(self.epoch) {
                        Some(index) => Found::Numbered(Source::Node(index, *out as u32)),
                        None => Found::Behind(node.clone()),
                    },
                    _ => {
                        drop(state);
                        self.find(value)
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
            buffers: Vec::new(),
            targets: Vec::new(),
            // The lengths of the parts go in front, so that no part can be read as the beginning of the next.
            key: vec![0; 3],
        };
        let mut walking = Walking { epoch, graph };
        let sources = walk(targets, &mut walking);
        let mut graph = walking.graph;
        graph
            .leaves
            .iter()
            .for_each(|aval| aval.encode(&mut graph.key));
        graph.key.extend(sources.iter().map(|s| s.encode()));
        let lens = [graph.nodes.len(), graph.leaves.len(), sources.len()];
        graph.key[..3].copy_from_slice(&lens.map(|n| n as u64));
        graph.targets = sources;
        graph
    }

    fn lower(&self) -> Lowered {
        let mut lowering = Lowering::default();
        self.leaves.iter().for_each(|aval| lowering.leaf(aval));
        let mut args = self.args.iter().copied();
        for node in &self.nodes {
            lowering.node(node, args.by_ref().take(node.args.len()));
        }
        lowering.finish(&self.targets)
    }
}
