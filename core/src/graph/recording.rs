//! Modes of a thread: the recording of a traced function, and the ways to watch recorded ops.

use crate::function::Reason;
use crate::graph::value::Shared;
use std::any::TypeId;
use std::cell::{Cell, RefCell};
use std::sync::OnceLock;

/// An action of a recorded body that a cached plan would not repeat.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UnrepeatedAction {
    /// It reads elements of a tensor.
    Reads,
    /// It calls a function that is not known to be pure.
    Calls,
    /// It calls the custom function of this type, which is not pure.
    CallsCustom(&'static str),
    /// It calls a function of this name, which is recorded at each call.
    CallsFunction(&'static str),
    /// It calls a function of a type parameter, whose trait is not traced.
    CallsUntracedTrait,
    /// It calls a function of a traced trait, in an impl that is not traced.
    CallsUntracedImpl(&'static str),
}

impl UnrepeatedAction {
    pub(crate) fn why(self) -> Reason {
        match self {
            UnrepeatedAction::Reads => "the body reads elements of a tensor".into(),
            UnrepeatedAction::Calls => "the body calls a function that may have side effects".into(),
            UnrepeatedAction::CallsCustom(name) => format!("the body calls the custom function `{name}`, which does not set `PURE`; set it if its `forward` and `backward` depend on their arguments alone").into(),
            UnrepeatedAction::CallsFunction(name) => format!("the body calls `{name}`, which is recorded").into(),
            UnrepeatedAction::CallsUntracedTrait => "the body calls a function of a type parameter that is not traced; put `#[traced]` on the trait and its impls".into(),
            UnrepeatedAction::CallsUntracedImpl(name) => format!("the body calls `{name}`, and this impl is not `#[traced]`").into(),
        }
    }
}

/// A way in which a thread watches the ops that it records. Each is a bit of [`WATCHES`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Watch {
    /// Each op is evaluated as soon as it is recorded.
    OpByOp = 1,
    /// Each op becomes a node of a trace.
    Trace = 2,
    /// Each op is evaluated as soon as it is recorded, and its result is searched for NaN and infinity.
    Anomaly = 4,
    /// The results of each op are noted in the graph of the mode.
    Graph = 8,
    /// The line of the user's code that records each op is noted.
    Lines = 16,
    /// A mesh is in force, to which annotations refer. Plans do not know it.
    Mesh = 32,
}

thread_local! {
    /// The ways in which this thread watches the ops that it records.
    static WATCHES: Cell<u8> = const { Cell::new(0) };
    /// True while the body of a function with a site is recorded. Functions that it calls are
    /// recorded with it.
    static RECORDING: Cell<bool> = const { Cell::new(false) };
    /// Number of times without paths to parameters that have begun and not ended.
    static NO_GRAD: Cell<u32> = const { Cell::new(0) };
    /// First action of the recorded body that a cached plan would not repeat.
    static UNREPEATED_ACTION: Cell<Option<UnrepeatedAction>> = const { Cell::new(None) };
    /// Values that a derivative follows and of which elements were read, while they are collected.
    static READS: RefCell<Option<Vec<Shared>>> = const { RefCell::new(None) };
    /// Functions of traits that the recorded body calls.
    static TRAIT_CALLS: RefCell<TraitCalls> = const { RefCell::new(TraitCalls::new()) };
}

/// Functions of traits that a recorded body calls.
///
/// A traced caller cannot see whether the impl that it calls is traced. It notes the call, and a
/// traced impl notes that it runs. A function that is called and does not run such code may have
/// side effects.
struct TraitCalls {
    called: Vec<(TypeId, &'static str)>,
    entered: Vec<TypeId>,
}

impl TraitCalls {
    const fn new() -> TraitCalls {
        TraitCalls {
            called: Vec::new(),
            entered: Vec::new(),
        }
    }

    fn untraced(&self) -> Option<UnrepeatedAction> {
        let mut called = self.called.iter();
        let (_, name) = called.find(|(function, _)| !self.entered.contains(function))?;
        Some(UnrepeatedAction::CallsUntracedImpl(name))
    }
}

/// Notes that the recorded body calls a function of a trait, with this name.
pub(crate) fn call_of_trait(function: TypeId, name: &'static str) {
    let noted = TRAIT_CALLS.try_with(|calls| {
        let called = &mut calls.borrow_mut().called;
        if !called.iter().any(|(other, _)| *other == function) {
            called.push((function, name));
        }
    });
    if noted.is_err() {
        impure_call();
    }
}

/// Notes that a traced impl of this function of a trait runs.
pub(crate) fn enter_traced_impl(function: TypeId) {
    // If the list is gone, the caller has noted an impure call.
    let _ = TRAIT_CALLS.try_with(|calls| {
        let entered = &mut calls.borrow_mut().entered;
        if !entered.contains(&function) {
            entered.push(function);
        }
    });
}

/// Notes an action of the recorded body.
pub(crate) fn note_action(action: UnrepeatedAction) {
    if RECORDING.get() {
        UNREPEATED_ACTION.set(UNREPEATED_ACTION.get().or(Some(action)));
    }
}

/// Notes that the current recording depends on elements of a tensor.
pub(crate) fn impure() {
    note_action(UnrepeatedAction::Reads);
}

/// Notes that elements are read of a value that a derivative follows.
pub(crate) fn read(value: &Shared) {
    READS.with_borrow_mut(|reads| {
        if let Some(reads) = reads {
            reads.push(value.clone());
        }
    });
}

/// Returns the result of `f`, and the values that a derivative follows and of which it read elements.
pub(crate) fn with_reads<R>(f: impl FnOnce() -> R) -> (R, Vec<Shared>) {
    /// Restores the outer list with the new values, even if `f` panics.
    struct Outer(Option<Vec<Shared>>);
    impl Drop for Outer {
        fn drop(&mut self) {
            let reads = READS.take().unwrap_or_default();
            if let Some(outer) = &mut self.0 {
                outer.extend(reads);
            }
            READS.set(self.0.take());
        }
    }
    let _outer = Outer(READS.replace(Some(Vec::new())));
    let result = f();
    let reads = READS.with_borrow(Clone::clone);
    (result, reads.unwrap_or_default())
}

/// Notes that the current recording calls a function that is not known to be pure.
pub fn impure_call() {
    note_action(UnrepeatedAction::Calls);
}

/// Notes that the current recording calls a function of a trait that is not traced.
pub(crate) fn untraced_call() {
    note_action(UnrepeatedAction::CallsUntracedTrait);
}

/// Notes that the current recording calls the function of this name, unless its calls can be cached.
///
/// They cannot if it is not known to be pure, or if a key cannot hold a constant or static that it names.
pub fn note_fit(fit: bool, name: &'static str) {
    if !fit {
        note_action(UnrepeatedAction::CallsFunction(name));
    }
}

/// Returns whether every call runs the user's body, because `GRADLOOM_RECORD` is `1`.
///
/// The environment is read once.
#[inline]
pub fn runs_bodies() -> bool {
    static RUNS: OnceLock<bool> = OnceLock::new();
    *RUNS.get_or_init(|| match std::env::var_os("GRADLOOM_RECORD") {
        None => false,
        Some(value) if value == "1" || value == "0" => value == "1",
        Some(value) => {
            let value = value.to_string_lossy();
            eprintln!("gradloom: `GRADLOOM_RECORD={value}` is neither `1` nor `0`; it is ignored");
            false
        }
    })
}

/// Returns whether the body of a function with a site is being recorded.
pub(crate) fn is_recording() -> bool {
    RECORDING.get()
}

/// Begins the recording of the body of a function with a site.
pub(crate) fn begin() {
    RECORDING.set(true);
    UNREPEATED_ACTION.set(None);
    let _ = TRAIT_CALLS.try_with(|calls| calls.replace(TraitCalls::new()));
}

/// Ends the recording.
pub(crate) fn end() {
    RECORDING.set(false);
}

/// Returns the first action of the recorded body that a cached plan would not repeat.
pub(crate) fn unrepeated_action() -> Option<UnrepeatedAction> {
    let untraced = || TRAIT_CALLS.try_with(|calls| calls.borrow().untraced());
    UNREPEATED_ACTION
        .get()
        .or_else(|| untraced().ok().flatten())
}

/// Returns whether ops do not keep the path to parameters.
pub(crate) fn ignores_params() -> bool {
    NO_GRAD.get() > 0
}

/// Begins a time in which ops do not keep the path to parameters. Such times may overlap.
pub(crate) fn begin_no_grad() {
    NO_GRAD.set(NO_GRAD.get() + 1);
}

/// Ends a time that [`begin_no_grad`] began.
pub(crate) fn end_no_grad() {
    NO_GRAD.set(NO_GRAD.get() - 1);
}

/// Returns whether this thread watches the ops that it records. Then no call runs from a plan.
#[inline]
pub(crate) fn is_watched() -> bool {
    WATCHES.get() != 0
}

/// Returns whether this thread watches its ops in this way.
pub(crate) fn watches(how: Watch) -> bool {
    WATCHES.get() & how as u8 != 0
}

/// Runs `f` while this thread watches its ops in this way. Restores the previous setting, even if `f` panics.
pub(crate) fn watching<R>(how: Watch, f: impl FnOnce() -> R) -> R {
    struct WatchGuard(Watch, bool);
    impl Drop for WatchGuard {
        fn drop(&mut self) {
            set_watch(self.0, self.1);
        }
    }
    let _before = WatchGuard(how, set_watch(how, true));
    f()
}

/// Sets whether this thread watches its ops in this way. Returns the previous setting.
pub(crate) fn set_watch(how: Watch, on: bool) -> bool {
    let before = watches(how);
    let others = WATCHES.get() & !(how as u8);
    WATCHES.set(others | if on { how as u8 } else { 0 });
    before
}

/// Ops on values that stand for a lane of `vmap` or a turn of a loop are no nodes of a trace until it is dropped: those
/// that compute all lanes or turns are.
pub(crate) struct UntracedGuard {
    was_traced: bool,
}

impl UntracedGuard {
    pub(crate) fn new() -> UntracedGuard {
        UntracedGuard {
            was_traced: set_watch(Watch::Trace, false),
        }
    }
}

impl Drop for UntracedGuard {
    fn drop(&mut self) {
        set_watch(Watch::Trace, self.was_traced);
    }
}
