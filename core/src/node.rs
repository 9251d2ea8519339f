//! The lazy graph: values, and the ops and calls that promise them.

use crate::buffer::Buffer;
use crate::call::{self, CallNode};
use crate::evaluate::Engine;
use crate::fork;
use crate::scope::Scopes;
use crate::walk::Stamp;
use crate::{Aval, DType, spare};
use gradloom_ir::{Op, Static};
use qcell::{TCell, TCellOwner};
use smallvec::SmallVec;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use triomphe::UniqueArc;

/// A handle on a value. No handle is weak, so whether it is the only one is a load.
pub(crate) type Shared = triomphe::Arc<Value>;

/// The edges of the graph, from consumers to producers.
pub(crate) struct Edge;

/// Who holds it follows edges, or cuts them. There is one, and the engine has it behind its lock: so a walk takes one lock,
/// and none for each value.
pub(crate) type Edges = TCellOwner<Edge>;

/// A tensor behind its handles, and the op that computes it. At least one of elements and promise is there.
///
/// An op with several results is a value of its own, of which nobody has a handle: its results are *parts* of it.
pub(crate) struct Value {
    pub(crate) aval: Aval,
    /// The elements, contiguous in row-major order, if they are there.
    elements: OnceLock<Arc<Buffer>>,
    /// What it is computed from, if an op promises it. Consumers hold producers, never the reverse.
    from: TCell<Edge, Args>,
    /// The call that promises it, and which of its results it is.
    call: Mutex<Option<(Arc<CallNode>, u32)>>,
    /// Who promises it.
    origin: AtomicU8,
    /// The op that computes it. Of what no op computes, it says nothing.
    pub(crate) op: Op,
    /// The operands of an op have smaller ages than what it computes. Of what no op computes, it is 0.
    pub(crate) age: u64,
    /// Length of the longest chain of pending ops and calls that ends here, as far as it is known; 0 where the elements are
    /// there.
    depth: AtomicU32,
    /// What only some ops have.
    pub(crate) more: Option<Arc<More>>,
    /// The tracings whose arguments it depends on.
    scopes: Scopes,
    pub(crate) stamp: Stamp,
}

// What is behind a cell is replaced in one step, so a panic cannot leave it half written.
impl UnwindSafe for Value {}
impl RefUnwindSafe for Value {}

/// The depth of stand-ins and of all that depends on them: nothing of it can be computed. No limit is a divisor of it.
pub(crate) const NEVER: u32 = u32::MAX;

/// An op promises the value, or has computed it while a transform traces through it.
const OP: u8 = 0;
/// A call promises the value.
const CALL: u8 = 1;
/// The elements are there, and nothing else.
const NOBODY: u8 = 2;

/// What a value is computed from.
#[derive(Default)]
pub(crate) enum Operands {
    /// Nothing.
    #[default]
    None,
    /// The data operands of its op.
    One(Shared),
    Two([Shared; 2]),
    Many(Vec<Shared>),
    /// An op with several results, and which of them it is.
    Part(Shared, u32),
}

impl Operands {
    /// The data operands of an op.
    #[inline]
    pub(crate) fn data(&self) -> &[Shared] {
        match self {
            Operands::None | Operands::Part(..) => &[],
            Operands::One(x) => std::slice::from_ref(x),
            Operands::Two(all) => all,
            Operands::Many(all) => all,
        }
    }
}

/// Operands that are dropped without recursion.
#[derive(Default)]
struct Args(Operands);

/// What only some ops have. Ops that are alike share it.
pub(crate) struct More {
    pub(crate) statics: SmallVec<[Static; 1]>,
    /// The `Like` operands: only what the op reads of them, so that they keep nothing alive.
    pub(crate) likes: SmallVec<[Aval; 1]>,
    /// The results, of an op that has several.
    pub(crate) outs: Box<[Aval]>,
    /// Statics and like operands as they are in a key.
    pub(crate) words: Box<[u64]>,
}

impl More {
    pub(crate) fn new(
        statics: SmallVec<[Static; 1]>,
        likes: SmallVec<[Aval; 1]>,
        outs: Box<[Aval]>,
    ) -> More {
        let mut words = Vec::new();
        statics.iter().for_each(|s| s.encode(&mut words));
        likes.iter().for_each(|l| l.encode(&mut words));
        More {
            statics,
            likes,
            outs,
            words: words.into(),
        }
    }
}

/// Where a value that no op computes by itself has its elements from.
pub(crate) enum Source {
    Elements(Arc<Buffer>),
    /// A result of an op that has several.
    Part(Shared, u32),
    /// A result of a call. No other value is the same result.
    Call(Arc<CallNode>, usize),
    /// Nowhere: the value stands for others in a graph that is planned and never computed.
    StandIn,
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
pub(crate) enum Behind<'a> {
    /// No op.
    Nothing,
    /// The op of the value, of these operands.
    Op(&'a [Shared]),
    /// An op with several results, and which of them it is.
    Part(&'a Shared, u32),
}

impl Value {
    /// A value that has not begun.
    pub(crate) fn blank() -> Value {
        Value {
            aval: Aval::new(DType::F32, []),
            elements: OnceLock::new(),
            from: TCell::new(Args::default()),
            call: Mutex::new(None),
            origin: AtomicU8::new(NOBODY),
            op: Op::Identity,
            age: 0,
            depth: AtomicU32::new(0),
            more: None,
            scopes: Scopes::default(),
            stamp: Stamp::default(),
        }
    }

    /// A blank value becomes one whose elements are there or promised.
    pub(crate) fn begin(&mut self, source: Source) {
        let depth = match &source {
            Source::Elements(_) => 0,
            Source::StandIn => NEVER,
            Source::Part(of, _) => of.depth(),
            Source::Call(node, _) => node.depth(),
        };
        *self.depth.get_mut() = depth;
        (self.age, *self.origin.get_mut()) = match source {
            Source::Elements(buffer) => {
                debug_assert_eq!(self.aval.dtype(), buffer.dtype());
                debug_assert_eq!(self.aval.numel(), buffer.len());
                self.elements = OnceLock::from(buffer);
                (0, NOBODY)
            }
            Source::Part(of, index) => {
                let age = of.age;
                self.scopes = of.scopes.clone();
                self.from.get_mut().0 = Operands::Part(of, index);
                (age, OP)
            }
            Source::Call(node, index) => {
                *self.call_mut() = Some((node, index as u32));
                (0, CALL)
            }
            Source::StandIn => (0, NOBODY),
        };
    }

    /// A blank value becomes the result of an op, or the op, where it has several results.
    // What is written here is soon read in whole words. Of parts of a value that are put together elsewhere, the CPU would
    // have to wait until all of them are in the cache.
    #[inline(always)]
    pub(crate) fn begin_op(&mut self, op: Op, operands: Operands, age: u64, depth: u32) {
        (self.op, self.age) = (op, age);
        *self.depth.get_mut() = depth;
        let none = std::mem::replace(&mut self.from.get_mut().0, operands);
        debug_assert!(matches!(none, Operands::None), "the value is blank");
        std::mem::forget(none);
        *self.origin.get_mut() = OP;
    }

    /// What it is traced by, which a blank value is not.
    pub(crate) fn set_scopes(&mut self, scopes: Scopes) {
        self.scopes = scopes;
    }

    /// Becomes blank. What it was computed from is let go of: if this was the last handle on something, it is returned, or added
    /// to a list.
    fn end(&mut self, pending: &mut Vec<Shared>) -> Option<UniqueArc<Value>> {
        if *self.origin.get_mut() == CALL
            && let Some((node, index)) = self.call_mut().take()
        {
            call::forget(node, index as usize, pending);
        }
        if let Some(buffer) = self.elements.take() {
            spare::let_go(buffer);
        }
        if self.more.is_some() {
            self.more = None;
        }
        if !self.scopes.is_empty() {
            self.scopes = Scopes::default();
        }
        match std::mem::take(&mut self.from.get_mut().0) {
            Operands::None => None,
            Operands::One(x) | Operands::Part(x, _) => last(x),
            Operands::Two([x, y]) => match (last(x), last(y)) {
                (Some(x), Some(y)) => {
                    pending.push(y.shareable());
                    Some(x)
                }
                (x, y) => x.or(y),
            },
            Operands::Many(all) => {
                pending.extend(all);
                None
            }
        }
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
        let mut buffer = self.elements.take()?;
        match Arc::get_mut(&mut buffer).is_some() {
            true => Some(buffer),
            false => {
                self.take_back(buffer);
                None
            }
        }
    }

    /// Takes the elements back.
    pub(crate) fn take_back(&mut self, buffer: Arc<Buffer>) {
        self.elements = OnceLock::from(buffer);
    }

    /// Length of the longest chain of pending ops and calls that ends here. It may be too large where a value in the chain has
    /// been computed since.
    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// Corrects the length of the chain of promises.
    pub(crate) fn set_depth(&self, depth: u32) {
        self.depth.store(depth, Ordering::Relaxed);
    }

    /// The elements, if they are there and have been taken from the call that computes them.
    #[inline]
    fn buffer(&self) -> Option<&Arc<Buffer>> {
        self.elements.get()
    }

    fn call(&self) -> MutexGuard<'_, Option<(Arc<CallNode>, u32)>> {
        // The call is taken in one step, so a panic cannot leave it half written.
        // It is held for a moment only.
        fork::lock(&self.call, || false).expect(fork::LOCKED)
    }

    fn call_mut(&mut self) -> &mut Option<(Arc<CallNode>, u32)> {
        self.call.get_mut().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether an op promises the value, or has computed it and not been let go of.
    #[inline]
    pub(crate) fn has_op(&self) -> bool {
        self.origin.load(Ordering::Acquire) == OP
    }

    /// Whether the elements are there and have been taken from the call that computes them.
    #[inline]
    pub(crate) fn has_elements(&self) -> bool {
        self.buffer().is_some()
    }

    /// Whether the elements are there.
    pub(crate) fn is_realised(&self) -> bool {
        self.has_elements()
            || self.origin.load(Ordering::Acquire) == CALL
                // A call that is gone has left the elements.
                && self.call().as_ref().is_none_or(|(node, _)| node.is_done())
    }

    /// What stands behind the value, whether or not the elements are there.
    #[inline]
    pub(crate) fn behind<'a>(&'a self, edges: &'a Edges) -> Behind<'a> {
        if !self.has_op() {
            return Behind::Nothing;
        }
        match &self.from.ro(edges).0 {
            Operands::Part(of, index) => Behind::Part(of, *index),
            operands => Behind::Op(operands.data()),
        }
    }

    /// The operands of an op.
    pub(crate) fn operands<'a>(&'a self, edges: &'a Edges) -> &'a [Shared] {
        self.from.ro(edges).0.data()
    }

    /// Whether no op stands behind this value: its elements are there or come from a call, and no transform is
    /// tracing through it.
    pub(crate) fn is_free(&self) -> bool {
        !self.has_op() || (self.has_elements() && !self.is_traced())
    }

    /// Returns whether a call can have this as an argument: whether it has elements, or will have them without the ops of the call.
    pub(crate) fn is_argument(&self) -> bool {
        self.is_free() || !self.is_traced() && self.depth() != NEVER
    }

    /// Whether a transform is tracing through this: then the promise stays when it is kept.
    #[inline]
    pub(crate) fn is_traced(&self) -> bool {
        self.scopes.any_open()
    }

    /// The tracings that are still going on and on whose arguments this value depends.
    #[inline]
    pub(crate) fn scopes(&self) -> Scopes {
        match self.is_traced() {
            true => self.scopes.clone(),
            false => Scopes::default(),
        }
    }

    /// The elements, if they are there. A promise that a transform has needed until now is let go of.
    pub(crate) fn settle(&self) -> Option<&Arc<Buffer>> {
        match self.look() {
            Look::Here(buffer) => Some(buffer),
            Look::Op | Look::Call(_) => None,
        }
    }

    /// Where the elements are. A promise that a transform has needed until now is let go of.
    ///
    /// It may take the engine's lock.
    pub(crate) fn look(&self) -> Look<'_> {
        match (self.origin.load(Ordering::Acquire), self.buffer()) {
            (CALL, _) => self.look_at_call(),
            (OP, None) => Look::Op,
            (OP, Some(buffer)) => {
                if !self.is_traced() {
                    let cut = self.cut(&mut Engine::lock().edges);
                    cut.let_go();
                }
                Look::Here(buffer)
            }
            (_, Some(buffer)) => Look::Here(buffer),
            (_, None) => unreachable!("a value without elements is promised"),
        }
    }

    fn look_at_call(&self) -> Look<'_> {
        let mut call = self.call();
        let buffer = match (self.buffer(), &*call) {
            (Some(buffer), _) => buffer,
            (None, Some((node, index))) => match node.take(*index as usize) {
                Some(buffer) => self.elements.get_or_init(|| buffer),
                None => return Look::Call(node.clone()),
            },
            (None, None) => unreachable!("a value without elements is promised"),
        };
        self.depth.store(0, Ordering::Relaxed);
        self.origin.store(NOBODY, Ordering::Release);
        let old = call.take();
        // Dropping the call may drop much else, which is not done under the lock.
        drop(call);
        if let Some((node, _)) = old {
            let mut pending = Vec::new();
            call::let_go(node, &mut pending);
            release(pending);
        }
        Look::Here(buffer)
    }

    /// The op of a value whose elements are there is let go of, unless a transform is tracing through it. What it was
    /// computed from is dropped with what is returned, which may drop much else.
    pub(crate) fn cut(&self, edges: &mut Edges) -> Cut {
        if !self.has_op() || !self.has_elements() || self.is_traced() {
            return Cut(Args::default());
        }
        self.origin.store(NOBODY, Ordering::Release);
        Cut(std::mem::take(self.from.rw(edges)))
    }
}

/// What a value was computed from, which is dropped when nothing is locked any more.
#[must_use = "it is dropped where nothing is locked"]
pub(crate) struct Cut(Args);

impl Cut {
    /// Drops it.
    pub(crate) fn let_go(self) {
        drop(self.0);
    }
}

/// Stores the elements of values that ops promise, and lets go of the ops unless a transform is tracing through them.
pub(crate) fn realise<'a>(targets: impl Iterator<Item = (&'a Shared, Arc<Buffer>)>) {
    let mut engine = Engine::lock();
    let store = |(value, buffer): (&Shared, _)| {
        // The first buffer stays.
        let _ = value.elements.set(buffer);
        value.depth.store(0, Ordering::Relaxed);
        value.cut(&mut engine.edges)
    };
    let cuts: SmallVec<[Cut; 4]> = targets.map(store).collect();
    drop(engine);
    cuts.into_iter().for_each(Cut::let_go);
}

/// The value, if this is the last handle on it. Of all threads that drop handles at once, one gets it.
#[inline]
fn last(value: Shared) -> Option<UniqueArc<Value>> {
    // Where there is one handle, nobody can make another meanwhile.
    match Shared::try_unique(value) {
        Ok(only) => Some(only),
        Err(value) => Shared::into_unique(value),
    }
}

/// Drops values.
pub(crate) fn release(mut pending: Vec<Shared>) {
    while let Some(value) = pending.pop() {
        if let Some(value) = last(value) {
            free(value, &mut pending);
        }
    }
}

/// Drops a value.
#[inline(never)]
pub(crate) fn let_go(value: Shared) {
    if let Some(value) = last(value) {
        let mut pending = Vec::new();
        free(value, &mut pending);
        release(pending);
    }
}

/// Drops a value, and what it was computed from as far as that is a chain: the rest is added to a list. So a graph of a million
/// ops or calls is dropped by loops.
fn free(mut value: UniqueArc<Value>, pending: &mut Vec<Shared>) {
    loop {
        let next = value.end(pending);
        spare::keep_value(value);
        match next {
            Some(next) => value = next,
            None => return,
        }
    }
}

impl Drop for Args {
    fn drop(&mut self) {
        match std::mem::take(&mut self.0) {
            Operands::None => {}
            Operands::One(x) | Operands::Part(x, _) => let_go(x),
            Operands::Two(all) => all.into_iter().for_each(let_go),
            Operands::Many(all) => release(all),
        }
    }
}
