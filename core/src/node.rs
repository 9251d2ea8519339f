//! The lazy graph: tensors, and the ops and calls that promise them.

use crate::Aval;
use crate::buffer::Buffer;
use crate::call::{self, CallNode};
use crate::spare;
use gradloom_ir::{Op, Static};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

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

/// A tensor behind its handles: at least one of elements and promise is there.
#[derive(Debug)]
pub(crate) struct Value {
    pub(crate) aval: Aval,
    /// The elements, contiguous in row-major order, if they were there from the beginning.
    given: Option<Arc<Buffer>>,
    /// The elements, if they have been computed since.
    computed: OnceLock<Arc<Buffer>>,
    promise: Mutex<Option<Promise>>,
    /// Who promises it, without the lock.
    origin: AtomicU8,
    pub(crate) stamp: Stamp,
}

/// An op promises the value, or has computed it while a transform traces through it.
const OP: u8 = 0;
/// A call promises the value.
const CALL: u8 = 1;
/// The elements are there, and nothing else.
const NOBODY: u8 = 2;

/// Who promises a value, and which of its results that is.
#[derive(Debug)]
pub(crate) enum Promise {
    Op(Arc<OpNode>, usize),
    Call(Arc<CallNode>, usize),
}

/// Where a value that begins has its elements from.
pub(crate) enum Source {
    Elements(Arc<Buffer>),
    /// A result of an op.
    Op(Arc<OpNode>, usize),
    /// A result of a call. No other value is the same result.
    Call(Arc<CallNode>, usize),
}

/// Where the elements of a value are.
pub(crate) enum Look<'a> {
    Here(&'a Arc<Buffer>),
    /// An op computes them as this result.
    Op(Arc<OpNode>, usize),
    /// A call computes them, as a whole.
    Call(Arc<CallNode>),
}

impl Value {
    /// A value whose elements are there or promised.
    pub(crate) fn new(aval: Aval, source: Source) -> Value {
        let mut value = Value {
            aval,
            given: None,
            computed: OnceLock::new(),
            promise: Mutex::new(None),
            origin: AtomicU8::new(NOBODY),
            stamp: Stamp::default(),
        };
        value.begin(source);
        value
    }

    /// Makes another value of one that was let go of.
    pub(crate) fn renew(&mut self, aval: &Aval, source: Source) {
        if self.aval != *aval {
            self.aval = aval.clone();
        }
        self.stamp = Stamp::default();
        self.begin(source);
    }

    fn begin(&mut self, source: Source) {
        let (origin, promise) = match source {
            Source::Elements(buffer) => {
                debug_assert_eq!(self.aval.dtype(), buffer.dtype());
                debug_assert_eq!(self.aval.numel(), buffer.len());
                self.given = Some(buffer);
                (NOBODY, None)
            }
            Source::Op(node, index) => (OP, Some(Promise::Op(node, index))),
            Source::Call(node, index) => (CALL, Some(Promise::Call(node, index))),
        };
        *self.origin.get_mut() = origin;
        *self.promise.get_mut().unwrap_or_else(|e| e.into_inner()) = promise;
    }

    /// Gives the elements away, if nobody else has them.
    pub(crate) fn give_up(&mut self) -> Option<Arc<Buffer>> {
        let mut buffer = self.given.take().or_else(|| self.computed.take())?;
        match Arc::get_mut(&mut buffer).is_some() {
            true => Some(buffer),
            false => {
                self.given = Some(buffer);
                None
            }
        }
    }

    /// Takes the elements back.
    pub(crate) fn take_back(&mut self, buffer: Arc<Buffer>) {
        self.given = Some(buffer);
    }

    /// The elements, if they are there.
    fn buffer(&self) -> Option<&Arc<Buffer>> {
        self.given.as_ref().or_else(|| self.computed.get())
    }

    fn promised(&self) -> MutexGuard<'_, Option<Promise>> {
        // The promise is replaced in one step, so a panic cannot leave it half written.
        self.promise.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether the elements are there.
    pub(crate) fn is_realised(&self) -> bool {
        match (self.buffer(), &*self.promised()) {
            (None, Some(Promise::Call(node, _))) => node.is_done(),
            (buffer, _) => buffer.is_some(),
        }
    }

    /// The op that promises this value or has computed it, if a transform may still want to know.
    pub(crate) fn op(&self) -> Option<(Arc<OpNode>, usize)> {
        if self.origin.load(Ordering::Acquire) != OP {
            return None;
        }
        match &*self.promised() {
            Some(Promise::Op(node, index)) => Some((node.clone(), *index)),
            _ => None,
        }
    }

    /// Whether no op stands behind this value: its elements are there or come from a call, and no transform is
    /// tracing through it.
    pub(crate) fn is_free(&self) -> bool {
        if self.origin.load(Ordering::Acquire) != OP {
            return true;
        }
        match &*self.promised() {
            None | Some(Promise::Call(..)) => true,
            Some(Promise::Op(node, _)) => self.buffer().is_some() && !node.is_traced(),
        }
    }

    /// The tracings that are still going on and on whose arguments this value depends.
    pub(crate) fn scopes(&self) -> Scopes {
        if self.origin.load(Ordering::Acquire) != OP {
            return Scopes::default();
        }
        match &*self.promised() {
            Some(Promise::Op(node, _)) if node.is_traced() => node.scopes.clone(),
            _ => Scopes::default(),
        }
    }

    /// Stores the elements, and lets go of the op unless a transform is tracing through it.
    pub(crate) fn realise(&self, buffer: Arc<Buffer>) {
        // The first buffer stays.
        let _ = self.computed.set(buffer);
        self.settle();
    }

    /// The elements, if they are there. A node that a transform has needed until now is let go of.
    pub(crate) fn settle(&self) -> Option<&Arc<Buffer>> {
        match self.look() {
            Look::Here(buffer) => Some(buffer),
            Look::Op(..) | Look::Call(_) => None,
        }
    }

    /// Where the elements are. A node that a transform has needed until now is let go of.
    pub(crate) fn look(&self) -> Look<'_> {
        if self.origin.load(Ordering::Acquire) == NOBODY
            && let Some(buffer) = self.buffer()
        {
            return Look::Here(buffer);
        }
        let mut promise = self.promised();
        let buffer = match (self.buffer(), &*promise) {
            (Some(buffer), _) => buffer,
            (None, Some(Promise::Op(node, index))) => return Look::Op(node.clone(), *index),
            (None, Some(Promise::Call(node, index))) => match node.take(*index) {
                Some(buffer) => self.computed.get_or_init(|| buffer),
                None => return Look::Call(node.clone()),
            },
            (None, None) => unreachable!("a value without elements is promised"),
        };
        let old = match &*promise {
            Some(Promise::Op(node, _)) if node.is_traced() => None,
            _ => promise.take(),
        };
        if promise.is_none() {
            self.origin.store(NOBODY, Ordering::Release);
        }
        // Dropping the node may drop much else, which is not done under the lock.
        drop(promise);
        let mut pending = Vec::new();
        match old {
            Some(Promise::Call(node, _)) => call::let_go(node, &mut pending),
            old => drop(old),
        }
        release(pending);
        Look::Here(buffer)
    }
}

/// Drops values. A chain of a million ops or calls is dropped by a loop: each dropped node moves the operands that
/// nothing else holds onto a list instead of dropping them inside itself.
pub(crate) fn release(mut pending: Vec<Arc<Value>>) {
    while let Some(value) = pending.pop() {
        let_go_of(value, &mut pending);
    }
}

/// Drops a value.
pub(crate) fn let_go(value: Arc<Value>) {
    let mut pending = Vec::new();
    let_go_of(value, &mut pending);
    release(pending);
}

/// Drops a value, but not what it was computed from: that is added to a list.
fn let_go_of(mut value: Arc<Value>, pending: &mut Vec<Arc<Value>>) {
    if Arc::strong_count(&value) > 1 {
        return;
    }
    let Some(inner) = Arc::get_mut(&mut value) else {
        return;
    };
    let promise = inner.promise.get_mut().unwrap_or_else(|e| e.into_inner());
    forget(promise.take(), pending);
    let buffer = inner.given.take().or_else(|| inner.computed.take());
    buffer.into_iter().for_each(spare::let_go);
    spare::keep_value(value);
}

/// Drops a promise.
fn forget(promise: Option<Promise>, pending: &mut Vec<Arc<Value>>) {
    match promise {
        Some(Promise::Op(node, _)) => {
            if let Some(mut node) = Arc::into_inner(node) {
                pending.append(&mut node.args);
            }
        }
        Some(Promise::Call(node, index)) => call::forget(node, index, pending),
        None => {}
    }
}

impl Drop for OpNode {
    fn drop(&mut self) {
        release(std::mem::take(&mut self.args));
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
