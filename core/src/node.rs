//! The lazy graph: tensors, and the ops that promise them.

use crate::Aval;
use crate::buffer::Buffer;
use gradloom_ir::{Op, Static};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A recorded op: one for all of its results, so that siblings share it.
#[derive(Debug)]
pub(crate) struct OpNode {
    pub(crate) op: Op,
    pub(crate) statics: Box<[Static]>,
    /// The data operands. Consumers hold producers, never the reverse.
    pub(crate) args: Vec<Arc<Value>>,
    /// The `Like` operands: only what the op reads of them, so that they keep nothing alive.
    pub(crate) likes: Box<[Aval]>,
    pub(crate) outs: Box<[Aval]>,
    /// The tracings whose arguments the op depends on.
    pub(crate) scopes: Scopes,
    /// The operands of a node have smaller ages than the node.
    pub(crate) age: u64,
    pub(crate) stamp: Stamp,
}

impl OpNode {
    /// Whether a transform is tracing through this: then the node stays when its results are realised.
    pub(crate) fn is_traced(&self) -> bool {
        self.scopes.iter().any(|scope| scope.is_open())
    }
}

/// The next age of a node.
pub(crate) fn next_age() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The run of a function by a transform, while it lasts.
#[derive(Debug)]
pub(crate) struct Scope(AtomicBool);

impl Scope {
    pub(crate) fn open() -> Arc<Scope> {
        Arc::new(Scope(AtomicBool::new(true)))
    }

    pub(crate) fn close(&self) {
        self.0.store(false, Ordering::Release);
    }

    fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Several scopes, none of them twice. Most nodes have none, and an empty `Arc` slice would allocate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scopes(Option<Arc<[Arc<Scope>]>>);

impl Scopes {
    pub(crate) fn one(scope: Arc<Scope>) -> Scopes {
        Scopes(Some(Arc::new([scope])))
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Scope>> {
        self.0.iter().flat_map(|all| all.iter())
    }

    /// The scopes of both that are still open.
    pub(crate) fn union(self, other: Scopes) -> Scopes {
        match (&self.0, &other.0) {
            (_, None) => self,
            (None, _) => other,
            (Some(a), Some(b)) if Arc::ptr_eq(a, b) => self,
            (Some(a), Some(b)) => {
                let mut all: Vec<Arc<Scope>> = a.iter().filter(|s| s.is_open()).cloned().collect();
                for scope in b.iter().filter(|s| s.is_open()) {
                    if !all.iter().any(|s| Arc::ptr_eq(s, scope)) {
                        all.push(scope.clone());
                    }
                }
                Scopes((!all.is_empty()).then(|| all.into()))
            }
        }
    }
}

/// A tensor behind its handles.
#[derive(Debug)]
pub(crate) struct Value {
    pub(crate) aval: Aval,
    state: Mutex<State>,
    pub(crate) stamp: Stamp,
}

/// What is there of a value. At least one of the two is.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// The op that promises the value, and which of its results it is.
    pub(crate) promise: Option<(Arc<OpNode>, usize)>,
    /// The elements, contiguous in row-major order.
    pub(crate) buffer: Option<Arc<Buffer>>,
}

impl Value {
    pub(crate) fn promise(node: Arc<OpNode>, index: usize) -> Value {
        let aval = node.outs[index].clone();
        Value {
            aval,
            state: Mutex::new(State {
                promise: Some((node, index)),
                buffer: None,
            }),
            stamp: Stamp::default(),
        }
    }

    pub(crate) fn realised(aval: Aval, buffer: Arc<Buffer>) -> Value {
        debug_assert_eq!(aval.dtype(), buffer.dtype());
        debug_assert_eq!(aval.numel(), buffer.len());
        Value {
            aval,
            state: Mutex::new(State {
                promise: None,
                buffer: Some(buffer),
            }),
            stamp: Stamp::default(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // The state is replaced in one step, so a panic cannot leave it half written.
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The elements, if they are there.
    pub(crate) fn buffer(&self) -> Option<Arc<Buffer>> {
        self.state().buffer.clone()
    }

    /// The tracings that are still going on and on whose arguments this value depends.
    pub(crate) fn scopes(&self) -> Scopes {
        match &self.state().promise {
            Some((node, _)) if node.is_traced() => node.scopes.clone(),
            _ => Scopes::default(),
        }
    }

    /// Stores the elements, and lets go of the op unless a transform is tracing through it.
    pub(crate) fn realise(&self, buffer: Arc<Buffer>) {
        self.state().buffer.get_or_insert(buffer);
        self.settle();
    }

    /// The elements, if they are there. A node that a transform has needed until now is let go of.
    pub(crate) fn settle(&self) -> Option<Arc<Buffer>> {
        let mut state = self.state();
        let buffer = state.buffer.clone()?;
        let traced = state
            .promise
            .as_ref()
            .is_some_and(|(node, _)| node.is_traced());
        let node = if traced { None } else { state.promise.take() };
        // Dropping the node may drop much else, which is not done under the lock.
        drop(state);
        drop(node);
        Some(buffer)
    }
}

/// A chain of a million ops is dropped by a loop: each dropped node moves the operands that nothing else
/// holds onto a list instead of dropping them inside itself.
impl Drop for OpNode {
    fn drop(&mut self) {
        let mut pending = std::mem::take(&mut self.args);
        while let Some(value) = pending.pop() {
            let Some(value) = Arc::into_inner(value) else {
                continue;
            };
            let state = value.state.into_inner().unwrap_or_else(|e| e.into_inner());
            if let Some(mut node) = state.promise.and_then(|(node, _)| Arc::into_inner(node)) {
                pending.append(&mut node.args);
            }
        }
    }
}

/// Where a walk met a node: the walk's epoch and a number. A walk needs no map from nodes to numbers.
///
/// Walks hold the engine's lock, which orders them; so relaxed atomics do.
#[derive(Debug, Default)]
pub(crate) struct Stamp {
    epoch: AtomicU64,
    index: AtomicU32,
}

impl Stamp {
    /// The number that this walk gave, if it has met the node.
    pub(crate) fn get(&self, epoch: u64) -> Option<u32> {
        (self.epoch.load(Ordering::Relaxed) == epoch).then(|| self.index.load(Ordering::Relaxed))
    }

    /// Gives a number in this walk.
    pub(crate) fn set(&self, epoch: u64, index: u32) {
        self.epoch.store(epoch, Ordering::Relaxed);
        self.index.store(index, Ordering::Relaxed);
    }
}
