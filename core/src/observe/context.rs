//! Trace contexts: guards that record the ops of their thread.

use super::log::Log;
use super::node::{NodeOutput, TraceNode};
use crate::Result;
use crate::error::TraceFault;
use crate::graph::recording::{Watch, set_watch};
use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

thread_local! {
    /// Open traces of this thread. The last one is active.
    static TRACES: RefCell<Vec<Rc<RefCell<Log>>>> = const { RefCell::new(Vec::new()) };
}

/// Applies `f` to the active trace of this thread, if there is one.
pub(crate) fn on_log<R>(f: impl FnOnce(&mut Log) -> R) -> Option<R> {
    // Thread-locals are gone while a thread exits; then nothing is recorded.
    let active = TRACES.try_with(|traces| traces.borrow().last().cloned());
    let active = active.ok().flatten()?;
    let mut log = active.try_borrow_mut().ok()?;
    Some(f(&mut log))
}

/// Records the operations of its thread while it is the active context.
///
/// Constructing a context makes it the active one, and dropping it makes the one before active again, also
/// when a panic drops it. Contexts of other threads are independent. While a context is open, each
/// operation on tensors of its thread becomes a node, those inside of [`traced`](macro@crate::traced)
/// functions and of derivatives included: traced functions record their bodies instead of running their
/// plans. So a context costs time, and results have the same bits.
///
/// Prints a line `Trace:`, and then each node, indented by two spaces.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::trace::{TraceContext, TracedTensor};
///
/// let trace = TraceContext::new();
/// let x = TracedTensor::named_input(&Tensor::from([1.0f32, 2.0, 3.0]), "x");
/// let y = TracedTensor::named_input(&Tensor::from([4.0f32, 5.0, 6.0]), "y");
/// let result = x.add(&y)?.multiply(&x)?;
/// trace.register_output("final", &result)?;
/// assert_eq!(
///     trace.to_string(),
///     "Trace:\n  input([3])\n  input([3])\n  add([3])\n  multiply([3])\n"
/// );
/// assert_eq!(result.underlying().to_vec::<f32>(), [5.0, 14.0, 27.0]);
/// # Ok::<(), gradloom::Error>(())
/// ```
#[derive(Debug)]
pub struct TraceContext(TraceHandle);

impl TraceContext {
    /// Opens a context, which is active until it is dropped or another one is opened.
    #[expect(
        clippy::new_without_default,
        reason = "a context changes its thread, which `default()` would hide"
    )]
    pub fn new() -> TraceContext {
        let log = Rc::new(RefCell::new(Log::default()));
        let _ = TRACES.try_with(|traces| traces.borrow_mut().push(log.clone()));
        set_watch(Watch::Trace, true);
        TraceContext(TraceHandle(log))
    }

    /// Returns the active context of this thread.
    ///
    /// ```
    /// use gradloom::trace::TraceContext;
    /// assert!(TraceContext::current().is_none());
    /// let trace = TraceContext::new();
    /// assert!(TraceContext::current().is_some_and(|current| current.is_active()));
    /// # drop(trace);
    /// ```
    pub fn current() -> Option<TraceHandle> {
        let current = TRACES.try_with(|traces| traces.borrow().last().cloned());
        current.ok().flatten().map(TraceHandle)
    }

    /// Closes the context and returns what it recorded.
    pub fn close(self) -> TraceHandle {
        self.0.clone()
    }
}

/// Contexts may be dropped in any order: each removes only itself.
impl Drop for TraceContext {
    fn drop(&mut self) {
        let left = TRACES.try_with(|traces| {
            let mut traces = traces.borrow_mut();
            traces.retain(|trace| !Rc::ptr_eq(trace, &self.0.0));
            !traces.is_empty()
        });
        set_watch(Watch::Trace, left.unwrap_or(false));
    }
}

impl Deref for TraceContext {
    type Target = TraceHandle;
    fn deref(&self) -> &TraceHandle {
        &self.0
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a [`TraceContext`] has recorded. It stays readable after the context is closed.
#[derive(Clone)]
pub struct TraceHandle(Rc<RefCell<Log>>);

impl TraceHandle {
    /// Returns whether the context is the active one of its thread.
    pub fn is_active(&self) -> bool {
        let is_last = |trace: &Rc<RefCell<Log>>| Rc::ptr_eq(trace, &self.0);
        TRACES
            .try_with(|traces| traces.borrow().last().is_some_and(is_last))
            .unwrap_or(false)
    }

    /// Returns the nodes in the order in which they were recorded. Operands precede consumers.
    pub fn nodes(&self) -> Vec<Arc<TraceNode>> {
        self.0.borrow().nodes().to_vec()
    }

    /// Returns the registered outputs, in the order in which their names were first registered.
    pub fn named_outputs(&self) -> Vec<(String, NodeOutput)> {
        self.0.borrow().outputs().to_vec()
    }

    /// Appends a node that the caller made. A node that is already there is not appended again.
    ///
    /// # Errors
    ///
    /// If the context is not active, or an input of the node is not a node of this trace.
    pub fn record_node(&self, node: Arc<TraceNode>) -> Result<()> {
        self.require_active()?;
        self.0.borrow_mut().push_checked(node)
    }

    /// Names an output. If the name is registered already, it names the new output.
    ///
    /// # Errors
    ///
    /// If the context is not active, or the output is not one of a node of this trace.
    pub fn register_output(&self, name: &str, output: impl Into<NodeOutput>) -> Result<()> {
        self.require_active()?;
        self.0.borrow_mut().register(name, output.into())
    }

    pub(crate) fn on_log<R>(&self, f: impl FnOnce(&mut Log) -> R) -> R {
        f(&mut self.0.borrow_mut())
    }

    fn require_active(&self) -> Result<()> {
        match self.is_active() {
            true => Ok(()),
            false => Err(TraceFault::Inactive.into()),
        }
    }
}

impl fmt::Display for TraceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Trace:")?;
        let log = self.0.borrow();
        log.nodes()
            .iter()
            .try_for_each(|node| writeln!(f, "  {node}"))
    }
}

impl fmt::Debug for TraceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.borrow().nodes()).finish()
    }
}
