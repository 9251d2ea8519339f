//! Modes of a thread: the recording of a traced function, and evaluation op by op.

use crate::function::Reason;
use std::cell::Cell;
use std::sync::OnceLock;

/// An action of a recorded body that a cached plan would not repeat.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UnrepeatedAction {
    /// It reads elements of a tensor.
    Reads,
    /// It names a constant or static that a key cannot hold.
    Names,
    /// It calls a function that is not known to be pure.
    Calls,
    /// It calls a function of this name, which is recorded at each call.
    CallsFunction(&'static str),
}

impl UnrepeatedAction {
    pub(crate) fn why(self) -> Reason {
        match self {
            UnrepeatedAction::Reads => "the body reads elements of a tensor".into(),
            UnrepeatedAction::Names => "the body, or a function that it calls, uses a constant or static that may be mutable or hold a tensor".into(),
            UnrepeatedAction::Calls => "the body calls a function that may have side effects".into(),
            UnrepeatedAction::CallsFunction(name) => format!("the body calls `{name}`, which is recorded").into(),
        }
    }
}

thread_local! {
    /// True while each op is evaluated as soon as it is recorded.
    static OP_BY_OP: Cell<bool> = const { Cell::new(false) };
    /// True while the body of a function with a site is recorded. Functions that it calls are
    /// recorded with it.
    static RECORDING: Cell<bool> = const { Cell::new(false) };
    /// First action of the recorded body that a cached plan would not repeat.
    static UNREPEATED_ACTION: Cell<Option<UnrepeatedAction>> = const { Cell::new(None) };
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

/// Notes that the current recording calls a function that is not known to be pure.
pub fn impure_call() {
    note_action(UnrepeatedAction::Calls);
}

/// Notes whether a key can hold the constants and statics that a body names.
///
/// If it cannot, because one may be mutable or hold a tensor, the current recording cannot be
/// cached either.
pub fn note_globals(fit_in_key: bool) {
    if !fit_in_key {
        note_action(UnrepeatedAction::Names);
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
}

/// Ends the recording.
pub(crate) fn end() {
    RECORDING.set(false);
}

/// Returns the first action of the recorded body that a cached plan would not repeat.
pub(crate) fn unrepeated_action() -> Option<UnrepeatedAction> {
    UNREPEATED_ACTION.get()
}

/// Returns whether ops are evaluated as soon as they are recorded.
pub(crate) fn is_op_by_op() -> bool {
    OP_BY_OP.get()
}

/// Sets whether ops are evaluated as soon as they are recorded. Returns the previous mode.
pub(crate) fn set_op_by_op(on: bool) -> bool {
    OP_BY_OP.replace(on)
}
