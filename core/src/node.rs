//! The lazy graph: tensors, and the ops and calls that promise them.

use crate::Aval;
use crate::buffer::Buffer;
use crate::call::{self, CallNode};
use crate::{spare, walk};
use gradloom_ir::{Op, Static};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// The next age of what an op computes whose oldest operand has the age `after`.
///
/// Threads take ages in blocks. A block is later than all that were taken before.
pub(crate) fn next_age(after: u64) -> u64 {
    let (mut next, mut end) = AGES.get();
    if next >= end || next <= after {
        next = fresh_ages();
        end = next + BLOCK;
    }
    AGES.set((next + 1, end));
    next
}

/// An age that is later than those of all there is, and earlier than those of what this thread records from now on.
pub(crate) fn age_of_all() -> u64 {
    let next = fresh_ages();
    AGES.set((next + 1, next + BLOCK));
    next
}

const BLOCK: u64 = 1 << 10;

thread_local! {
    /// The next age of this thread, and the end of its block.
    static AGES: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

fn fresh_ages() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(BLOCK, Ordering::Relaxed)
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

/// A tensor behind its handles, and the op that computes it. At least one of elements and promise is there.
///
/// An op with several results is a value of its own, of which nobody has a handle: its results are *parts* of it.
#[derive(Debug)]
pub(crate) struct Value {
    pub(crate) aval: Aval,
    /// The elements, contiguous in row-major order, if they were there from the beginning.
    given: Option<Arc<Buffer>>,
    /// The elements, if they have been computed since.
    computed: OnceLock<Arc<Buffer>>,
    promise: Mutex<Promise>,
    /// Who promises it, without the lock.
    origin: AtomicU8,
    /// The op that computes it. Of what no op computes, it says nothing.
    pub(crate) op: Op,
    /// The operands of an op have smaller ages than what it computes. Of what no op computes, it is 0.
    pub(crate) age: u64,
    /// What only some ops have.
    pub(crate) more: Option<Box<More>>,
    /// The tracings whose arguments it depends on.
    scopes: Scopes,
    pub(crate) stamp: Stamp,
}

/// An op promises the value, or has computed it while a transform traces through it.
const OP: u8 = 0;
/// A call promises the value.
const CALL: u8 = 1;
/// The elements are there, and nothing else.
const NOBODY: u8 = 2;

/// Who promises a value.
#[derive(Debug)]
enum Promise {
    /// Nobody: the elements are there.
    Kept,
    /// The op of the value, of these operands. Consumers hold producers, never the reverse.
    Op(Args),
    /// An op with several results, and which of them it is.
    Part(Arc<Value>, u32),
    /// A call, and which of its results it is.
    Call(Arc<CallNode>, usize),
}

/// The data operands of an op.
#[derive(Debug)]
struct Args(Operands);

type Operands = SmallVec<[Arc<Value>; 2]>;

/// What only some ops have.
#[derive(Debug, Default)]
pub(crate) struct More {
    pub(crate) statics: SmallVec<[Static; 1]>,
    /// The `Like` operands: only what the op reads of them, so that they keep nothing alive.
    pub(crate) likes: SmallVec<[Aval; 1]>,
    /// The results, of an op that has several.
    pub(crate) outs: Box<[Aval]>,
}

/// Where a value that begins has its elements from.
pub(crate) enum Source {
    Elements(Arc<Buffer>),
    /// The only result of an op; or the op, where it has several results.
    Op(Recorded),
    /// A result of an op that has several.
    Part(Arc<Value>, u32),
    /// A result of a call. No other value is the same result.
    Call(Arc<CallNode>, usize),
    /// Nowhere: the value stands for others in a graph that is planned and never computed.
    StandIn,
}

/// An op that is recorded.
pub(crate) struct Recorded {
    pub(crate) op: Op,
    pub(crate) more: Option<Box<More>>,
    pub(crate) args: Operands,
    pub(crate) age: u64,
    pub(crate) scopes: Scopes,
}

/// Where the elements of a value are.
pub(crate) enum Look<'a> {
    Here(&'a Arc<Buffer>),
    /// An op computes them.
    Op,
    /// A call computes them, as a whole.
    Call(Arc<CallNode>),
}

/// What stands behind a value.
pub(crate) enum Behind {
    /// No op.
    Nothing,
    /// The op of the value.
    Op,
    /// An op with several results, and which of them it is.
    Part(Arc<Value>, u32),
}

impl Value {
    /// A value whose elements are there or promised.
    pub(crate) fn new(aval: Aval, source: Source) -> Value {
        let mut value = Value {
            aval,
            given: None,
            computed: OnceLock::new(),
            promise: Mutex::new(Promise::Kept),
            origin: AtomicU8::new(NOBODY),
            op: Op::Identity,
            age: 0,
            more: None,
            scopes: Scopes::default(),
            stamp: Stamp::default(),
        };
        value.begin(source);
        value
    }

    /// Makes another value of one that was let go of.
    #[inline]
    pub(crate) fn renew(&mut self, aval: &Aval, source: Source) {
        if self.aval != *aval {
            self.aval = aval.clone();
        }
        self.stamp = Stamp::default();
        self.begin(source);
    }

    #[inline]
    fn begin(&mut self, source: Source) {
        let (origin, promise) = match source {
            Source::Elements(buffer) => {
                debug_assert_eq!(self.aval.dtype(), buffer.dtype());
                debug_assert_eq!(self.aval.numel(), buffer.len());
                self.given = Some(buffer);
                (NOBODY, Promise::Kept)
            }
            Source::Op(recorded) => {
                (self.op, self.age) = (recorded.op, recorded.age);
                (self.more, self.scopes) = (recorded.more, recorded.scopes);
                (OP, Promise::Op(Args(recorded.args)))
            }
            Source::Part(of, index) => {
                (self.age, self.scopes) = (of.age, of.scopes.clone());
                (OP, Promise::Part(of, index))
            }
            Source::Call(node, index) => (CALL, Promise::Call(node, index)),
            Source::StandIn => (NOBODY, Promise::Kept),
        };
        *self.origin.get_mut() = origin;
        *self.promise_mut() = promise;
    }

    /// The avals of the results of the op.
    pub(crate) fn outs(&self) -> &[Aval] {
        match &self.more {
            Some(more) if !more.outs.is_empty() => &more.outs,
            _ => std::slice::from_ref(&self.aval),
        }
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

    /// Whether the elements are there and have been taken from the call that computes them.
    #[inline]
    pub(crate) fn has_elements(&self) -> bool {
        self.buffer().is_some()
    }

    fn promise(&self) -> MutexGuard<'_, Promise> {
        // The promise is replaced in one step, so a panic cannot leave it half written.
        self.promise.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn promise_mut(&mut self) -> &mut Promise {
        self.promise.get_mut().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether the elements are there.
    pub(crate) fn is_realised(&self) -> bool {
        match (self.buffer(), &*self.promise()) {
            (None, Promise::Call(node, _)) => node.is_done(),
            (buffer, _) => buffer.is_some(),
        }
    }

    /// What stands behind the value, whether or not the elements are there. `arg` gets the operands of its op.
    #[inline]
    pub(crate) fn behind(&self, arg: impl FnMut(&Arc<Value>)) -> Behind {
        if self.origin.load(Ordering::Acquire) != OP {
            return Behind::Nothing;
        }
        match &*self.promise() {
            Promise::Op(args) => {
                args.0.iter().for_each(arg);
                Behind::Op
            }
            Promise::Part(of, index) => Behind::Part(of.clone(), *index),
            Promise::Kept | Promise::Call(..) => Behind::Nothing,
        }
    }

    /// Whether no op stands behind this value: its elements are there or come from a call, and no transform is
    /// tracing through it.
    pub(crate) fn is_free(&self) -> bool {
        let op = self.origin.load(Ordering::Acquire) == OP;
        !op || (self.buffer().is_some() && !self.is_traced())
    }

    /// Whether a transform is tracing through this: then the promise stays when it is kept.
    #[inline]
    pub(crate) fn is_traced(&self) -> bool {
        self.scopes.iter().any(|scope| scope.is_open())
    }

    /// The tracings that are still going on and on whose arguments this value depends.
    pub(crate) fn scopes(&self) -> Scopes {
        match self.is_traced() {
            true => self.scopes.clone(),
            false => Scopes::default(),
        }
    }

    /// Stores the elements, and lets go of the op unless a transform is tracing through it.
    pub(crate) fn realise(&self, buffer: Arc<Buffer>) {
        // The first buffer stays.
        let _ = self.computed.set(buffer);
        self.settle();
    }

    /// The elements, if they are there. A promise that a transform has needed until now is let go of.
    pub(crate) fn settle(&self) -> Option<&Arc<Buffer>> {
        match self.look() {
            Look::Here(buffer) => Some(buffer),
            Look::Op | Look::Call(_) => None,
        }
    }

    /// Where the elements are. A promise that a transform has needed until now is let go of.
    pub(crate) fn look(&self) -> Look<'_> {
        if self.origin.load(Ordering::Acquire) == NOBODY
            && let Some(buffer) = self.buffer()
        {
            return Look::Here(buffer);
        }
        let mut promise = self.promise();
        let buffer = match (self.buffer(), &*promise) {
            (Some(buffer), _) => buffer,
            (None, Promise::Op(_) | Promise::Part(..)) => return Look::Op,
            (None, Promise::Call(node, index)) => match node.take(*index) {
                Some(buffer) => self.computed.get_or_init(|| buffer),
                None => return Look::Call(node.clone()),
            },
            (None, Promise::Kept) => unreachable!("a value without elements is promised"),
        };
        let old = match self.is_traced() {
            true => Promise::Kept,
            false => {
                self.origin.store(NOBODY, Ordering::Release);
                std::mem::replace(&mut *promise, Promise::Kept)
            }
        };
        // Dropping the promise may drop much else, which is not done under the lock.
        drop(promise);
        match old {
            Promise::Kept => {}
            Promise::Call(node, _) => {
                let mut pending = Vec::new();
                call::let_go(node, &mut pending);
                release(pending);
            }
            old => drop(old),
        }
        Look::Here(buffer)
    }
}

/// Drops values. A chain of a million ops or calls is dropped by a loop: each dropped value moves the operands that
/// nothing else holds onto a list instead of dropping them inside itself.
pub(crate) fn release(mut pending: Vec<Arc<Value>>) {
    while let Some(value) = pending.pop() {
        let_go_of(value, &mut pending);
    }
}

/// Drops a value.
#[inline]
pub(crate) fn let_go(value: Arc<Value>) {
    if Arc::strong_count(&value) > 1 {
        return;
    }
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
    match std::mem::replace(inner.promise_mut(), Promise::Kept) {
        Promise::Kept => {}
        Promise::Op(mut args) => pending.extend(args.0.drain(..)),
        Promise::Part(of, _) => pending.push(of),
        Promise::Call(node, index) => call::forget(node, index, pending),
    }
    let buffer = inner.given.take().or_else(|| inner.computed.take());
    buffer.into_iter().for_each(spare::let_go);
    (inner.more, inner.scopes, inner.age) = (None, Scopes::default(), 0);
    spare::keep_value(value);
}

impl Drop for Args {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            release(self.0.drain(..).collect());
        }
    }
}

/// Where a walk met a value: the walk's epoch and the source. A walk needs no map from values to numbers.
///
/// Walks hold the engine's lock, which orders them; so relaxed atomics do.
#[derive(Debug, Default)]
pub(crate) struct Stamp {
    epoch: AtomicU64,
    source: AtomicU64,
}

impl Stamp {
    /// The source that this walk gave, if it has met the value.
    #[inline]
    pub(crate) fn get(&self, epoch: u64) -> Option<walk::Source> {
        let met = self.epoch.load(Ordering::Relaxed) == epoch;
        met.then(|| walk::Source::decode(self.source.load(Ordering::Relaxed)))
    }

    /// Gives a source in this walk.
    #[inline]
    pub(crate) fn set(&self, epoch: u64, source: walk::Source) {
        self.epoch.store(epoch, Ordering::Relaxed);
        self.source.store(source.encode(), Ordering::Relaxed);
    }
}
