//! Modes of evaluation: promises, an eager graph, or one operation at a time.
//!
//! A thread computes promises. [`enter`] chooses another mode until its guard is dropped, also by a panic; the mode
//! before is then active again. Guards nest, and other threads are not affected. Results have the same bits in all
//! modes.
//!
//! | mode | an operation is computed | its node is kept |
//! |---|---|---|
//! | [`Mode::Promises`] | when a value is read, with all that it depends on | until it is computed |
//! | [`Mode::EagerGraph`] | at once | until the graph is [released](ModeGuard::release) |
//! | [`Mode::OpByOp`] | at once | no |
//!
//! In all modes, what depends on an [`input`](ModeGuard::input) of the guard keeps its nodes until the release, and
//! [`pull_back`](ModeGuard::pull_back) differentiates it.
//!
//! ```
//! use gradloom::Tensor;
//! use gradloom::engine::{self, Mode};
//! use gradloom::trace::pending;
//!
//! let graph = engine::enter(Mode::EagerGraph);
//! let x = graph.input(&Tensor::from([1.0f32, 2.0]))?;
//! let y = (&x * &x).sum(..);
//! assert!(y.is_realised());
//! // The nodes are there although the value is computed.
//! assert_eq!(pending(&y).0.eqns.len(), 3);
//! let dx = graph.pull_back(&y, &Tensor::from(1.0f32), &x)?;
//! assert_eq!(dx.to_vec::<f32>(), [2.0, 4.0]);
//! graph.release();
//! assert_eq!(pending(&y).0.eqns.len(), 0);
//! drop(graph);
//! assert_eq!(engine::mode(), Mode::Promises);
//! # Ok::<(), gradloom::Error>(())
//! ```
//!
//! While a guard lives, calls of traced functions record their bodies instead of running their plans, as in a
//! [`TraceContext`](crate::trace::TraceContext). So a guard costs time, also with [`Mode::Promises`].
//!
//! # Epochs
//!
//! An *epoch* is the time between two releases of a graph. A tensor whose node belongs to an earlier epoch is *stale*:
//! its elements stay, and a derivative through it is an error. It is restored by recording its operations again, by
//! the code that did or by [`trace::run`](crate::trace::run) of the program that [`pending`](crate::trace::pending)
//! returned before the release. The program has the static arguments as they were written.

use crate::error::BackwardFault;
use crate::graph::{recording, run};
use crate::observe::{self, ModeGraph};
use crate::tensor::record::traced_input;
use crate::transform::{cut_to_nodes, pull_back};
use crate::tree::arithmetic::paths;
use crate::tree::{frozen, leaves, with_leaves};
use crate::{Error, Result, Tensor, Tree, check};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

pub use crate::observe::Mode;

/// Begins a mode of this thread, until the guard is dropped.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::engine::{self, Mode};
///
/// let x = Tensor::from([1.0f32, 2.0]);
/// let guard = engine::enter(Mode::OpByOp);
/// assert!(x.tanh().is_realised());
/// drop(guard);
/// assert!(!x.tanh().is_realised());
/// ```
pub fn enter(mode: Mode) -> ModeGuard {
    recording::impure_call();
    ModeGuard(observe::enter(mode))
}

/// Returns the mode of this thread.
///
/// ```
/// use gradloom::engine::{Mode, mode};
/// assert_eq!(mode(), Mode::Promises);
/// ```
pub fn mode() -> Mode {
    recording::impure_call();
    observe::active_mode()
}

/// Guard of a mode, and the graph of the operations that its thread records while the guard is the last one.
///
/// See the [module](self).
#[must_use = "the mode ends when the guard is dropped"]
pub struct ModeGuard(Rc<RefCell<ModeGraph>>);

impl ModeGuard {
    /// Returns the mode of the guard.
    pub fn mode(&self) -> Mode {
        self.0.borrow().mode()
    }

    /// Returns a tree equal to `x` whose leaves are inputs of the graph. Values that depend on them can be
    /// [differentiated](Self::pull_back).
    ///
    /// # Errors
    ///
    /// If a leaf cannot be computed. With [`Mode::Promises`], nothing is computed.
    pub fn input<X: Tree>(&self, x: &X) -> Result<X> {
        let scope = self.0.borrow().scope();
        let inputs: Vec<Tensor> = leaves(x)
            .iter()
            .map(|leaf| traced_input(leaf, &scope))
            .collect();
        let values = inputs.iter().map(|input| input.physical_value().clone());
        let values: Vec<_> = values.collect();
        if self.mode() != Mode::Promises {
            run::realise(&values)?;
        }
        ModeGraph::note(&self.0, &values);
        Ok(with_leaves(x, &inputs))
    }

    /// Computes everything that was recorded while this guard was the last one and that something holds, in one plan.
    ///
    /// A value that was dropped is computed only if one that is held depends on it.
    ///
    /// ```
    /// use gradloom::Tensor;
    /// use gradloom::engine::{self, Mode};
    ///
    /// let guard = engine::enter(Mode::Promises);
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// let (a, b) = (x.tanh(), x.sum(..) * 2.0);
    /// guard.evaluate_all()?;
    /// assert!(a.is_realised() && b.is_realised());
    /// # Ok::<(), gradloom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`evaluate`](crate::evaluate()): all values then stay promises.
    pub fn evaluate_all(&self) -> Result<()> {
        ModeGraph::evaluate_all(&self.0)
    }

    /// Returns the cotangents of `x`, given the cotangent of `y`: the product with the Jacobian of what was recorded
    /// between them.
    ///
    /// Leaves of `x` are [inputs](Self::input) of the graph, or values that depend on them. They count as independent:
    /// a path from one leaf through another one belongs to the latter. Values that were computed are not computed
    /// again. With [`Mode::EagerGraph`], the operations of the pass are nodes of the graph too, so the result can be
    /// differentiated again.
    ///
    /// # Errors
    ///
    /// If `ct` differs from `y` in dtype or shape, if a leaf of `x` is not a float, if `y` does not depend on `x`, if
    /// one of them is [stale](Self::is_stale) or not of this graph, or if an operation has no derivative.
    pub fn pull_back<X: Tree>(&self, y: &Tensor, ct: &Tensor, x: &X) -> Result<X> {
        check::floats(x, "argument")?;
        if ct.aval() != y.aval() {
            return Err(Error::Mismatch {
                what: "cotangent",
                path: "result".to_owned(),
                found: Box::new(ct.aval().clone()),
                expected: Box::new(y.aval().clone()),
            });
        }
        let frozen = frozen(x);
        let names = paths(x, "argument");
        let all = leaves(x);
        // A tensor that is a leaf twice is one input.
        let mut inputs: Vec<Tensor> = Vec::new();
        let mut index = Vec::new();
        for (i, leaf) in all.iter().enumerate() {
            if frozen[i] {
                index.push(None);
                continue;
            }
            self.check_epoch(leaf, &names[i])?;
            let address = leaf.physical().address();
            let known = inputs
                .iter()
                .position(|x| x.physical().address() == address);
            index.push(Some(known.unwrap_or(inputs.len())));
            if known.is_none() {
                inputs.push(leaf.clone());
            }
        }
        self.check_epoch(y, "result")?;
        let graph = cut_to_nodes(&inputs, self.0.borrow().epoch(), y);
        let (cts, depends) = pull_back(&graph, inputs.len(), ct)?;
        if !depends {
            let aval = y.aval().clone();
            return Err(BackwardFault::Independent { aval }.into_error());
        }
        let ct = |(leaf, i): (&Tensor, Option<usize>)| match i.and_then(|i| cts[i].as_ref()) {
            Some(ct) => ct.with_batch_dims(leaf.batch_dims()),
            None => leaf.zeros_like(),
        };
        let cts: Vec<Tensor> = all.iter().zip(index).map(ct).collect();
        Ok(with_leaves(x, &cts))
    }

    /// Returns an error if a tensor is not a node of the current epoch.
    fn check_epoch(&self, x: &Tensor, path: &str) -> Result<()> {
        let (path, epoch) = (path.to_owned(), self.epoch());
        let fault = match self.epoch_of(x) {
            Some(found) if found == epoch => return Ok(()),
            Some(found) => BackwardFault::Stale { path, found, epoch },
            None => {
                let aval = x.aval().clone();
                BackwardFault::Outside { path, aval }
            }
        };
        Err(fault.into_error())
    }

    /// Returns the number of releases of the graph.
    ///
    /// ```
    /// use gradloom::engine::{self, Mode};
    ///
    /// let graph = engine::enter(Mode::EagerGraph);
    /// assert_eq!(graph.epoch(), 0);
    /// graph.release();
    /// assert_eq!(graph.epoch(), 1);
    /// ```
    pub fn epoch(&self) -> u64 {
        self.0.borrow().epoch().number
    }

    /// Returns the epoch in which a tensor became a node of the graph, or `None` if it is not one.
    pub fn epoch_of(&self, x: &Tensor) -> Option<u64> {
        self.0.borrow().epoch_of(x.physical_value())
    }

    /// Returns whether a tensor is a node of an earlier epoch, whose operation has been freed.
    ///
    /// ```
    /// use gradloom::Tensor;
    /// use gradloom::engine::{self, Mode};
    ///
    /// let graph = engine::enter(Mode::EagerGraph);
    /// let y = Tensor::from([1.0f32, 2.0]) * 2.0;
    /// graph.release();
    /// assert!(graph.is_stale(&y));
    /// assert_eq!(y.to_vec::<f32>(), [2.0, 4.0]);
    /// ```
    pub fn is_stale(&self, x: &Tensor) -> bool {
        self.epoch_of(x).is_some_and(|found| found != self.epoch())
    }

    /// Frees the nodes of the graph, and the values that nothing but nodes holds. Begins the next epoch.
    ///
    /// Promises stay promises. Dropping the guard releases the graph, too.
    pub fn release(&self) {
        ModeGraph::release(&self.0);
    }
}

impl fmt::Debug for ModeGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModeGuard")
            .field("mode", &self.mode())
            .field("epoch", &self.epoch())
            .finish_non_exhaustive()
    }
}

/// Guards may be dropped in any order: each removes only its own mode.
impl Drop for ModeGuard {
    fn drop(&mut self) {
        observe::leave(&self.0);
    }
}
