//! The lazy graph: tensors, and the ops that promise them.

use crate::Aval;
use crate::buffer::Buffer;
use gradloom_ir::{Op, Static};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
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
    /// Whether a value that a transform is tracing by lies below: then the node stays when it is realised.
    pub(crate) traced: bool,
    pub(crate) stamp: Stamp,
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

    /// Whether a transform's tracing depends on this value.
    pub(crate) fn is_traced(&self) -> bool {
        self.state()
            .promise
            .as_ref()
            .is_some_and(|(node, _)| node.traced)
    }

    /// Stores the elements, and lets go of the op unless a transform is tracing through it.
    pub(crate) fn realise(&self, buffer: Arc<Buffer>) {
        let mut state = self.state();
        state.buffer.get_or_insert(buffer);
        let keep = state.promise.as_ref().is_some_and(|(node, _)| node.traced);
        let node = if keep { None } else { state.promise.take() };
        drop(state);
        drop(node);
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
