//! The lazy graph: values, and the ops and calls that promise them.

use crate::graph::call_node::{self, CallNode};
use crate::graph::engine::Engine;
use crate::graph::handle::{self, Handle};
use crate::graph::topo::Stamp;
use crate::graph::trace_scope::Scopes;
use crate::{Aval, DType, Error, recycle};
use gradloom_ir::{Op, Static, pass};
use gradloom_kernels::lock;
use gradloom_kernels::memory::Buffer;
use qcell::{TCell, TCellOwner};
use smallvec::SmallVec;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use triomphe::UniqueArc;

/// Handle to a value. There are no weak handles, so testing whether a handle is unique is one load.
pub(crate) type Shared = triomphe::Arc<Value>;

/// Marker type of the cells that hold the edges of the graph, from consumers to producers.
pub(crate) struct Edge;

/// Permission to follow and cut edges.
///
/// The engine keeps the only one behind its lock, so a walk takes one lock in total, and not one
/// for each value.
pub(crate) type Edges = TCellOwner<Edge>;

/// A tensor behind its handles: its elements, the op or call that promises them, or both.
///
/// An op with several results has a `Value` of its own, to which users have no handle. Its results
/// are *parts* of it.
pub(crate) struct Value {
    pub(crate) aval: Aval,
    /// Elements in row-major order without gaps, once they are ready.
    elements: OnceLock<Arc<Buffer>>,
    /// Operands, if an op promises the value. Consumers hold producers, never the reverse.
    from: TCell<Edge, Args>,
    /// Call that promises the value, and the index of the result.
    call: Mutex<Option<(Arc<CallNode>, u32)>>,
    /// Producer of the value: [`OP`], [`CALL`], [`NOBODY`], [`PREFIXED`] or [`ARGUMENT`].
    origin: AtomicU8,
    /// Producing op. Meaningless unless `origin` is [`OP`].
    pub(crate) op: Op,
    /// Number of the call of `backward` that has followed the op, or 0: see [`Value::spend`].
    spent: AtomicU16,
    /// Sequence number of the value, greater than those of its operands; 0 if no op produces it.
    pub(crate) seq_no: u64,
    /// Upper bound of the length of the longest chain of pending ops and calls that ends here.
    ///
    /// It is not lowered when a value in the chain is realised later. 0 once the elements are ready.
    depth: AtomicU32,
    /// Statics, like operands and avals of several results, for ops that have any of these.
    pub(crate) more: Option<Arc<OpData>>,
    /// Scopes of the transforms whose arguments this value depends on.
    scopes: Scopes,
    pub(crate) stamp: Stamp,
}

// Cells are replaced by single moves, so a panic cannot leave one half written.
impl UnwindSafe for Value {}
impl RefUnwindSafe for Value {}

/// Depth of a value that cannot be computed, such as a stand-in, and of its consumers.
///
/// It is not a multiple of the limit, so `bound_pending` never runs such a value.
pub(crate) const NEVER: u32 = u32::MAX;

/// An op promises the value, or has computed it while a transform traces through it.
const OP: u8 = 0;
/// A call promises the value.
const CALL: u8 = 1;
/// The value has elements and neither an op nor a call.
const NOBODY: u8 = 2;
/// Another value has the elements, of which this one is a form with a batch prefix.
///
/// No op or call has such a value as an operand or a result, and so no plan sees it. Code that does not know
/// of prefixes finds a value without elements, which is an error.
const PREFIXED: u8 = 3;
/// Nobody: the value stands for an argument of a function that is traced without its arguments.
const ARGUMENT: u8 = 4;

/// Operands of a value.
#[derive(Default)]
pub(crate) enum ValueOperands {
    /// No operands.
    #[default]
    None,
    /// Data operands of the op of the value.
    One(Shared),
    Two([Shared; 2]),
    Many(Vec<Shared>),
    /// Op with several results, and the index of this result.
    Part(Shared, u32),
}

impl ValueOperands {
    /// Returns the data operands of the op, or an empty slice if the value is a part.
    #[inline]
    pub(crate) fn data(&self) -> &[Shared] {
        match self {
            ValueOperands::None | ValueOperands::Part(..) => &[],
            ValueOperands::One(x) => std::slice::from_ref(x),
            ValueOperands::Two(all) => all,
            ValueOperands::Many(all) => all,
        }
    }
}

/// Operands whose destructor does not recurse.
#[derive(Default)]
struct Args(ValueOperands);

/// Op data that most ops do not have. Equal ops share one allocation.
pub(crate) struct OpData {
    pub(crate) statics: SmallVec<[Static; 1]>,
    /// `Like` operands. Only their avals are stored, so they keep nothing alive.
    pub(crate) likes: SmallVec<[Aval; 1]>,
    /// Avals of the results, if the op has several; empty otherwise.
    pub(crate) outs: Box<[Aval]>,
    /// Encoding of statics and like operands in a key.
    pub(crate) words: Box<[u64]>,
    /// The value with the elements, if this is the data of a value with a batch prefix.
    physical: Option<Handle>,
}

impl OpData {
    /// Returns the data of a result of an op with several, or `None` if it needs none.
    ///
    /// A backward pass frees the edge to the op, and an error then names the custom function.
    fn of_part(&self, op: Op) -> Option<Arc<OpData>> {
        let statics = (op == Op::Custom).then(|| self.statics.clone())?;
        let more = OpData::new(statics, SmallVec::new(), Box::default());
        Some(Arc::new(more))
    }

    pub(crate) fn new(
        statics: SmallVec<[Static; 1]>,
        likes: SmallVec<[Aval; 1]>,
        outs: Box<[Aval]>,
    ) -> OpData {
        let mut words = Vec::new();
        statics.iter().for_each(|s| s.encode(&mut words));
        likes.iter().for_each(|l| l.encode(&mut words));
        OpData {
            statics,
            likes,
            outs,
            words: words.into(),
            physical: None,
        }
    }
}

/// Producer of a value that is not computed by an op of its own.
pub(crate) enum ValueSource {
    Elements(Arc<Buffer>),
    /// Result of an op with several results.
    Part(Shared, u32),
    /// Result of a call. At most one value is this result.
    Call(Arc<CallNode>, usize),
    /// Placeholder in a graph that is planned but never computed.
    StandIn(StandIn),
    /// Form of another value with a batch prefix.
    Prefixed(Shared),
}

/// State of a value: ready, or the producer that it waits for.
pub(crate) enum State<'a> {
    Ready(&'a Arc<Buffer>),
    /// An op computes the elements.
    Op,
    /// A call computes the elements, along with its other results.
    Call(Arc<CallNode>),
    /// Nothing computes the elements.
    StandIn(StandIn),
}

/// Meaning of a value without elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StandIn {
    /// One lane of `vmap`, or one turn of a loop.
    Lane,
    /// An argument of `trace`.
    Argument,
}

impl StandIn {
    /// Returns the error for a read.
    pub(crate) fn error(self) -> Error {
        match self {
            StandIn::Lane => Error::Lane,
            StandIn::Argument => Error::Abstract,
        }
    }
}

/// Producer of a value in the graph of ops.
pub(crate) enum Producer<'a> {
    /// No op: the value is realised or promised by a call.
    Nothing,
    /// Op of the value itself, with its operands.
    Op(&'a [Shared]),
    /// Op with several results, and the index of this result.
    Part(&'a Shared, u32),
}

impl Value {
    /// Returns an empty value.
    ///
    /// It is initialised by [`init`](Self::init) or [`init_op`](Self::init_op).
    pub(crate) fn empty() -> Value {
        Value {
            aval: Aval::new(DType::F32, []),
            elements: OnceLock::new(),
            from: TCell::new(Args::default()),
            call: Mutex::new(None),
            origin: AtomicU8::new(NOBODY),
            op: Op::Identity,
            spent: AtomicU16::new(0),
            seq_no: 0,
            depth: AtomicU32::new(0),
            more: None,
            scopes: Scopes::default(),
            stamp: Stamp::default(),
        }
    }

    /// Initialises an empty value that is not computed by an op of its own.
    pub(crate) fn init(&mut self, source: ValueSource) {
        let depth = match &source {
            ValueSource::Elements(_) => 0,
            ValueSource::StandIn(_) | ValueSource::Prefixed(_) => NEVER,
            ValueSource::Part(of, _) => of.depth(),
            ValueSource::Call(node, _) => node.depth(),
        };
        *self.depth.get_mut() = depth;
        (self.seq_no, *self.origin.get_mut()) = match source {
            ValueSource::Elements(buffer) => {
                debug_assert_eq!(self.aval.dtype(), buffer.dtype());
                debug_assert_eq!(self.aval.numel(), buffer.len());
                self.elements = OnceLock::from(buffer);
                (0, NOBODY)
            }
            ValueSource::Part(of, index) => {
                let seq_no = of.seq_no;
                self.scopes = of.scopes.clone();
                if !self.aval.dtype().is_float() && !self.scopes.is_empty() {
                    self.scopes = std::mem::take(&mut self.scopes).without_params();
                }
                self.op = of.op;
                self.more = of.more.as_ref().and_then(|more| more.of_part(of.op));
                self.from.get_mut().0 = ValueOperands::Part(of, index);
                (seq_no, OP)
            }
            ValueSource::Call(node, index) => {
                *self.call_mut() = Some((node, index as u32));
                (0, CALL)
            }
            ValueSource::StandIn(StandIn::Lane) => (0, NOBODY),
            ValueSource::StandIn(StandIn::Argument) => (0, ARGUMENT),
            ValueSource::Prefixed(physical) => {
                self.scopes = physical.scopes.clone();
                let mut more = OpData::new(SmallVec::new(), SmallVec::new(), Box::default());
                more.physical = Some(physical.into());
                self.more = Some(Arc::new(more));
                (0, PREFIXED)
            }
        };
    }

    /// Initialises an empty value as an op, or as the single result of one.
    // Inlining stores the operands as whole words, as they are soon loaded. A value that is
    // assembled elsewhere from smaller stores stalls such loads until the stores have reached the
    // cache.
    #[inline(always)]
    pub(crate) fn init_op(&mut self, op: Op, operands: ValueOperands, seq_no: u64, depth: u32) {
        (self.op, self.seq_no) = (op, seq_no);
        *self.depth.get_mut() = depth;
        let none = std::mem::replace(&mut self.from.get_mut().0, operands);
        debug_assert!(matches!(none, ValueOperands::None), "the value is empty");
        std::mem::forget(none);
        *self.origin.get_mut() = OP;
    }

    /// Sets the scopes of an empty value.
    pub(crate) fn set_scopes(&mut self, scopes: Scopes) {
        self.scopes = scopes;
    }

    /// Adds scopes to those of the operands.
    pub(crate) fn add_scopes(&mut self, scopes: Scopes) {
        self.scopes = std::mem::take(&mut self.scopes).union(scopes);
    }

    /// Returns the latest epoch of a graph to which the value belongs.
    pub(crate) fn epoch_in(&self, graph: u64) -> Option<u64> {
        self.scopes.epoch_in(graph)
    }

    /// Resets the value to empty and drops its operands.
    ///
    /// Uniquely owned operands are not dropped here, to avoid recursion: one is returned, others
    /// are added to `pending`.
    // Each dropped op runs it. It is recursive by the physical value of a prefix, so it needs the hint.
    #[inline(always)]
    fn end(&mut self, pending: &mut Vec<Shared>) -> Option<UniqueArc<Value>> {
        if *self.origin.get_mut() == CALL
            && let Some((node, index)) = self.call_mut().take()
        {
            call_node::drop_result(node, index as usize, pending);
        }
        if let Some(buffer) = self.elements.take() {
            recycle::recycle_buffer(buffer);
        }
        if self.more.is_some() {
            self.more = None;
        }
        if !self.scopes.is_empty() {
            self.scopes = Scopes::default();
            *self.spent.get_mut() = 0;
        }
        match std::mem::take(&mut self.from.get_mut().0) {
            ValueOperands::None => None,
            ValueOperands::One(x) | ValueOperands::Part(x, _) => last(x),
            ValueOperands::Two([x, y]) => match (last(x), last(y)) {
                (Some(x), Some(y)) => {
                    pending.push(y.shareable());
                    Some(x)
                }
                (x, y) => x.or(y),
            },
            ValueOperands::Many(all) => {
                pending.extend(all);
                None
            }
        }
    }

    /// Returns the avals of the results of the op.
    pub(crate) fn outs(&self) -> &[Aval] {
        match &self.more {
            Some(more) if !more.outs.is_empty() => &more.outs,
            _ => std::slice::from_ref(&self.aval),
        }
    }

    /// Takes the elements out, if they are not shared and may be written.
    pub(crate) fn try_donate(&mut self) -> Option<Arc<Buffer>> {
        let mut buffer = self.elements.take()?;
        match Buffer::writable(&mut buffer).is_some() {
            true => Some(buffer),
            false => {
                self.restore(buffer);
                None
            }
        }
    }

    /// Restores elements that [`try_donate`](Self::try_donate) took.
    pub(crate) fn restore(&mut self, buffer: Arc<Buffer>) {
        self.elements = OnceLock::from(buffer);
    }

    /// Returns the length of the longest chain of pending ops and calls that ends here.
    ///
    /// It may be too large if a value in the chain has been realised since.
    #[inline]
    pub(crate) fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// Corrects the length of the pending chain.
    pub(crate) fn set_depth(&self, depth: u32) {
        self.depth.store(depth, Ordering::Relaxed);
    }

    /// Returns the elements, if they are ready and, for a result of a call, taken from it.
    #[inline]
    fn buffer(&self) -> Option<&Arc<Buffer>> {
        self.elements.get()
    }

    fn call(&self) -> MutexGuard<'_, Option<(Arc<CallNode>, u32)>> {
        // Poisoning is harmless: the call is taken by one move, so a panic cannot leave it half
        // written. The lock is held only for a moment, so its holder need not be known.
        lock::lock(&self.call, || false).expect(lock::LOCKED)
    }

    fn call_mut(&mut self) -> &mut Option<(Arc<CallNode>, u32)> {
        self.call.get_mut().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns whether the value still has an op: a pending one, or one that a transform traces.
    #[inline]
    pub(crate) fn has_op(&self) -> bool {
        self.origin.load(Ordering::Acquire) == OP
    }

    /// Returns whether the elements are ready and, for a result of a call, taken from it.
    #[inline]
    pub(crate) fn has_elements(&self) -> bool {
        self.buffer().is_some()
    }

    /// Returns whether the elements are ready.
    pub(crate) fn is_realised(&self) -> bool {
        self.has_elements()
            || self.origin.load(Ordering::Acquire) == CALL
                // A call that was dropped has left its elements here.
                && self.call().as_ref().is_none_or(|(node, _)| node.is_done())
    }

    /// Returns the op behind the value, even if the elements are ready.
    #[inline]
    pub(crate) fn producer<'a>(&'a self, edges: &'a Edges) -> Producer<'a> {
        if !self.has_op() {
            return Producer::Nothing;
        }
        match &self.from.ro(edges).0 {
            ValueOperands::Part(of, index) => Producer::Part(of, *index),
            operands => Producer::Op(operands.data()),
        }
    }

    /// Returns the data operands of the op.
    pub(crate) fn operands<'a>(&'a self, edges: &'a Edges) -> &'a [Shared] {
        self.from.ro(edges).0.data()
    }

    /// Returns whether the op makes a number with which a power is a product, so that a program with the number is much
    /// faster.
    ///
    /// Programs have these exponents as constants. Other numbers may become leaves, so that a number that differs from
    /// call to call needs no other program.
    pub(crate) fn is_exponent(&self) -> bool {
        let number = self.more.as_ref().filter(|_| self.op == Op::Scalar);
        let number = number.and_then(|more| more.statics.first()?.float());
        number.is_some_and(pass::is_product)
    }

    /// Returns whether the value does not need an op.
    ///
    /// It is realised and no transform is tracing through it, or a call promises it.
    pub(crate) fn is_free(&self) -> bool {
        match self.origin.load(Ordering::Acquire) {
            OP => self.has_elements() && !self.is_traced(),
            PREFIXED => false,
            _ => true,
        }
    }

    /// Returns the value with the elements, if this one is its form with a batch prefix.
    #[inline]
    pub(crate) fn physical(&self) -> Option<&Shared> {
        self.more.as_ref()?.physical.as_deref()
    }

    /// Returns whether the value can be an argument of a call: it is ready or can be computed first.
    pub(crate) fn is_argument(&self) -> bool {
        let can_be = self.is_free() || !self.is_traced() && self.depth() != NEVER;
        can_be && self.spent() == 0
    }

    /// Returns whether a transform is tracing through the value, so that its op has to stay.
    #[inline]
    pub(crate) fn is_traced(&self) -> bool {
        self.is_in_scope() && self.spent() == 0
    }

    /// Returns whether an op on this value is traced.
    #[inline]
    pub(crate) fn is_in_scope(&self) -> bool {
        self.scopes.any_open()
    }

    /// Returns whether the value depends on a parameter.
    pub(crate) fn depends_on_params(&self) -> bool {
        self.scopes.has_params()
    }

    /// Returns the number of the call of `backward` that has followed the op, or 0.
    pub(crate) fn spent(&self) -> u16 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Notes that the `number`-th call of `backward` has followed the op, so that nothing needs the op once the
    /// elements are ready. Does nothing if a transform that is not `backward` traces the value.
    pub(crate) fn spend(&self, number: u16) {
        if self.scopes.only_params_open() {
            self.spent.store(number, Ordering::Relaxed);
        }
    }

    /// Returns the open scopes whose arguments this value depends on.
    #[inline]
    pub(crate) fn scopes(&self) -> Scopes {
        match self.is_in_scope() {
            true => self.scopes.clone(),
            false => Scopes::default(),
        }
    }

    /// Returns the elements, if they are ready. Drops the op of a ready value unless it is traced.
    pub(crate) fn detach_if_ready(&self) -> Option<&Arc<Buffer>> {
        match self.state() {
            State::Ready(buffer) => Some(buffer),
            State::Op | State::Call(_) | State::StandIn(_) => None,
        }
    }

    /// Returns the state of the value. Drops the op of a ready value unless it is traced.
    ///
    /// It may take the engine's lock.
    pub(crate) fn state(&self) -> State<'_> {
        match (self.origin.load(Ordering::Acquire), self.buffer()) {
            (CALL, _) => self.state_of_call(),
            (OP, None) => State::Op,
            (OP, Some(buffer)) => {
                if !self.is_traced() {
                    let cut = self.cut(&mut Engine::lock().edges);
                    cut.drop_operands();
                }
                State::Ready(buffer)
            }
            (_, Some(buffer)) => State::Ready(buffer),
            (ARGUMENT, None) => State::StandIn(StandIn::Argument),
            (_, None) => State::StandIn(StandIn::Lane),
        }
    }

    fn state_of_call(&self) -> State<'_> {
        let mut call = self.call();
        let buffer = match (self.buffer(), &*call) {
            (Some(buffer), _) => buffer,
            (None, Some((node, index))) => match node.take(*index as usize) {
                Some(buffer) => self.elements.get_or_init(|| buffer),
                None => return State::Call(node.clone()),
            },
            (None, None) => unreachable!("a value without elements is promised"),
        };
        self.depth.store(0, Ordering::Relaxed);
        self.origin.store(NOBODY, Ordering::Release);
        let old = call.take();
        // Dropping the call may drop many values, so the lock is released first.
        drop(call);
        if let Some((node, _)) = old {
            let mut pending = Vec::new();
            call_node::recycle_node(node, &mut pending);
            release(pending);
        }
        State::Ready(buffer)
    }

    /// Detaches the op of a ready value, unless a transform is tracing through it.
    ///
    /// The operands are dropped with the returned [`DetachedOperands`], because that may drop many values.
    pub(crate) fn cut(&self, edges: &mut Edges) -> DetachedOperands {
        if !self.has_op() || !self.has_elements() || self.is_traced() {
            return DetachedOperands(Args::default());
        }
        self.origin.store(NOBODY, Ordering::Release);
        DetachedOperands(std::mem::take(self.from.rw(edges)))
    }
}

/// Operands of a value that became ready, to be dropped after all locks are released.
#[must_use = "call `drop_operands` after all locks are released"]
pub(crate) struct DetachedOperands(Args);

impl DetachedOperands {
    /// Drops the operands.
    pub(crate) fn drop_operands(self) {
        drop(self.0);
    }
}

/// Stores the elements of values that ops promise, and drops their ops unless they are traced.
pub(crate) fn realise<'a>(targets: impl Iterator<Item = (&'a Shared, Arc<Buffer>)>) {
    let mut engine = Engine::lock();
    let store = |(value, buffer): (&Shared, _)| {
        // If another thread was faster, its buffer stays.
        let _ = value.elements.set(buffer);
        value.depth.store(0, Ordering::Relaxed);
        value.cut(&mut engine.edges)
    };
    let cuts: SmallVec<[DetachedOperands; 4]> = targets.map(store).collect();
    drop(engine);
    cuts.into_iter().for_each(DetachedOperands::drop_operands);
}

/// Returns the value, if `value` is its last handle. If several threads race, exactly one gets it.
#[inline]
fn last(value: Shared) -> Option<UniqueArc<Value>> {
    // A unique handle stays unique: only its owner could clone it.
    match Shared::try_unique(value) {
        Ok(only) => Some(only),
        Err(value) => Shared::into_unique(value),
    }
}

/// Drops handles without recursion.
pub(crate) fn release(mut pending: Vec<Shared>) {
    while let Some(value) = pending.pop() {
        if let Some(value) = last(value) {
            free(value, &mut pending);
        }
    }
}

/// Drops a handle without recursion.
#[inline(never)]
pub(crate) fn drop_handle(value: Shared) {
    if let Some(value) = last(value) {
        let mut pending = Vec::new();
        free(value, &mut pending);
        release(pending);
    }
}

/// Drops a value and the chain of operands that only it owns.
///
/// Other operands are added to `pending`.
///
/// Loops instead of recursion let a graph of a million ops be dropped.
fn free(mut value: UniqueArc<Value>, pending: &mut Vec<Shared>) {
    loop {
        let next = value.end(pending);
        handle::recycle_value(value);
        match next {
            Some(next) => value = next,
            None => return,
        }
    }
}

impl Drop for Args {
    fn drop(&mut self) {
        match std::mem::take(&mut self.0) {
            ValueOperands::None => {}
            ValueOperands::One(x) | ValueOperands::Part(x, _) => drop_handle(x),
            ValueOperands::Two(all) => all.into_iter().for_each(drop_handle),
            ValueOperands::Many(all) => release(all),
        }
    }
}
