//! Backward passes: the graph from parameters to a result is cut out as a program, differentiated, and replayed on the
//! values that it has.

use super::{LeafCode, NoGrad, Slot};
use crate::error::BackwardFault;
use crate::graph::engine::Engine;
use crate::graph::recording;
use crate::graph::topo::{Origin, Stack, WalkNode, Walker, walk};
use crate::graph::value::{Edges, Producer, Shared, Value};
use crate::tensor::host_code::rules_of;
use crate::transform::{DependentGraph, cut_to_params, pull_back};
use crate::{Error, Result, Tensor, check};
use gradloom_ir::Op;
use std::panic::Location;
use std::sync::{Arc, Mutex};

/// A backward pass, with a choice of what it starts from and what it keeps.
///
/// ```
/// use gradloom::{Backward, Param, Tensor};
///
/// let w = Param::new(Tensor::from([1.0f32, 2.0]))?;
/// let y = w.tensor().square();
/// let ct = Tensor::from([1.0f32, 10.0]);
/// Backward::of(&y).cotangent(&ct).retain_graph().run()?;
/// Backward::of(&y).cotangent(&ct).run()?;
/// assert_eq!(w.grad().unwrap().to_vec::<f32>(), [4.0, 80.0]);
/// assert!(Backward::of(&y).cotangent(&ct).run().is_err());
/// # Ok::<(), gradloom::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "`run` starts the pass"]
pub struct Backward<'a> {
    y: &'a Tensor,
    ct: Option<&'a Tensor>,
    retains: bool,
}

impl<'a> Backward<'a> {
    /// Returns the pass from a result.
    pub fn of(y: &'a Tensor) -> Backward<'a> {
        Backward {
            y,
            ct: None,
            retains: false,
        }
    }

    /// Sets the cotangent of the result. By default, it is 1 for a result that is a single number.
    pub fn cotangent(mut self, ct: &'a Tensor) -> Backward<'a> {
        self.ct = Some(ct);
        self
    }

    /// Keeps the graph and the contexts of custom functions, so that another pass can follow.
    pub fn retain_graph(mut self) -> Backward<'a> {
        self.retains = true;
        self
    }

    /// Adds the gradients to the slots of all parameters that the result depends on.
    ///
    /// The gradients are promises. Either all slots get theirs, or none.
    ///
    /// # Errors
    ///
    /// If the result does not depend on a [`Param`](super::Param), if it is not a single float and has no cotangent, if
    /// an earlier pass has followed a part of the graph, or if a rule of the user fails.
    #[track_caller]
    pub fn run(self) -> Result<()> {
        // The slots change, which a cached call would not repeat.
        recording::impure_call();
        let at = Location::caller();
        let Backward { y, ct, retains } = self;
        let ct = match ct {
            Some(ct) if ct.aval() != y.aval() => {
                return Err(Error::Mismatch {
                    what: "cotangent",
                    path: "result".to_owned(),
                    found: Box::new(ct.aval().clone()),
                    expected: Box::new(y.aval().clone()),
                });
            }
            Some(ct) => ct.clone(),
            None => {
                check::scalar(y)?;
                y.ones_like()
            }
        };
        let (leaves, slots) = params_of(y)?;
        let graph = cut_to_params(&leaves, y);
        let cts = {
            // The ops of the pass lead to no parameter.
            let _untraced = NoGrad::new();
            pull_back(&graph, leaves.len(), &ct)?.0
        };
        let mut sums: Vec<(Arc<Slot>, Tensor)> = Vec::new();
        for ((leaf, slot), ct) in leaves.iter().zip(slots).zip(cts) {
            // A slot without a handle is gone, and nothing can read its gradient.
            let Some(slot) = slot else { continue };
            let ct = ct.unwrap_or_else(|| leaf.zeros_like());
            let ct = ct.with_batch_dims(leaf.batch_dims());
            sums.push((slot.clone(), slot.hooked(ct)?));
        }
        for (slot, ct) in &sums {
            slot.check(ct)?;
        }
        sums.iter().try_for_each(|(slot, ct)| slot.accumulate(ct))?;
        if !retains {
            spend(graph, at);
        }
        Ok(())
    }
}

/// Backward passes to parameters.
impl Tensor {
    /// Adds the gradients of this number to the slots of all [`Param`](crate::Param)s that it depends on, and releases
    /// the graph.
    ///
    /// ```
    /// # use gradloom::{Param, Tensor};
    /// let w = Param::new(Tensor::from([1.0f32, 2.0]))?;
    /// w.tensor().square().sum(..).backward()?;
    /// assert_eq!(w.grad().unwrap().to_vec::<f32>(), [2.0, 4.0]);
    /// # Ok::<(), gradloom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Backward::run`].
    #[track_caller]
    pub fn backward(&self) -> Result<()> {
        Backward::of(self).run()
    }

    /// Does the same for a result of any shape, given its cotangent.
    ///
    /// ```
    /// # use gradloom::{Param, Tensor};
    /// let w = Param::new(Tensor::from([1.0f32, 2.0]))?;
    /// w.tensor().square().backward_with(&Tensor::from([1.0f32, 0.0]))?;
    /// assert_eq!(w.grad().unwrap().to_vec::<f32>(), [2.0, 0.0]);
    /// # Ok::<(), gradloom::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Backward::run`].
    #[track_caller]
    pub fn backward_with(&self, ct: &Tensor) -> Result<()> {
        Backward::of(self).cotangent(ct).run()
    }

    /// Returns whether the tensor is a float that depends on a [`Param`](crate::Param).
    ///
    /// ```
    /// # use gradloom::{Param, Tensor};
    /// let w = Param::new(Tensor::from([1.0f32, 2.0]))?;
    /// assert!(w.tensor().exp().requires_grad());
    /// assert!(!Tensor::from(1.0f32).exp().requires_grad());
    /// # Ok::<(), gradloom::Error>(())
    /// ```
    pub fn requires_grad(&self) -> bool {
        self.dtype().is_float() && self.physical_value().depends_on_params()
    }
}

/// Places of the calls of `backward` in the source. A value holds the number of one.
static PLACES: Mutex<Vec<&'static Location<'static>>> = Mutex::new(Vec::new());

/// Returns the number of a place, at least 1. If there are too many, the last ones share a number.
fn number_of(at: &'static Location<'static>) -> u16 {
    let mut places = PLACES.lock().unwrap_or_else(|e| e.into_inner());
    let known = places.iter().position(|place| *place == at);
    let i = known.unwrap_or_else(|| {
        if places.len() < usize::from(u16::MAX) {
            places.push(at);
        }
        places.len() - 1
    });
    i as u16 + 1
}

fn place_of(number: u16) -> String {
    let places = PLACES.lock().unwrap_or_else(|e| e.into_inner());
    places[usize::from(number) - 1].to_string()
}

/// Releases the graph of a pass that was run at a place: its ops, as soon as their values are ready, and its contexts.
fn spend(graph: DependentGraph, at: &'static Location<'static>) {
    let number = number_of(at);
    for value in &graph.values {
        value.spend(number);
    }
    for value in &graph.values {
        value.detach_if_ready();
        release_context(value, at);
    }
}

/// Drops the context of the custom function behind a value.
pub(super) fn release_context(value: &Value, at: &'static Location<'static>) {
    let statics = value.more.as_ref().map(|more| &more.statics[..]);
    if let Some(rules) = statics
        .filter(|_| value.op == Op::Custom)
        .and_then(rules_of)
    {
        rules.release(at);
    }
}

/// Returns the name of the op of a value, or of the custom function.
pub(super) fn name_of(value: &Value) -> String {
    let code = value
        .more
        .as_ref()
        .and_then(|more| more.statics.first()?.code());
    match code {
        Some(code) => code.get().name(),
        None => value.op.called().to_owned(),
    }
}

/// Returns the tensors that stand for parameters in the graph of a result, and their slots.
#[expect(clippy::type_complexity, reason = "two lists")]
fn params_of(y: &Tensor) -> Result<(Vec<Tensor>, Vec<Option<Arc<Slot>>>)> {
    let disconnected = || {
        let aval = y.aval().clone();
        Err(BackwardFault::Disconnected { aval }.into_error())
    };
    if !y.requires_grad() {
        return disconnected();
    }
    let mut engine = Engine::lock();
    let mut walking = ParamWalk {
        epoch: engine.next_epoch(),
        edges: &engine.edges,
        leaves: Vec::new(),
        spent: None,
    };
    walk([y.physical_value()], &mut walking, &mut Stack::default());
    let ParamWalk { leaves, spent, .. } = walking;
    drop(engine);
    if let Some((node, number)) = spent {
        let first = place_of(number);
        return Err(BackwardFault::Second { node, first }.into_error());
    }
    if leaves.is_empty() {
        return disconnected();
    }
    let slot = |leaf: &Tensor| {
        let code = LeafCode::of(&leaf.0.more.as_ref()?.statics)?;
        code.slot.upgrade()
    };
    let slots = leaves.iter().map(slot).collect();
    Ok((leaves, slots))
}

/// Walk from a result to the parameters that it depends on.
struct ParamWalk<'a> {
    epoch: u64,
    edges: &'a Edges,
    leaves: Vec<Tensor>,
    /// The first op that an earlier pass has followed, and the number of that pass.
    spent: Option<(String, u16)>,
}

impl<'a> Walker<'a> for ParamWalk<'a> {
    fn epoch(&self) -> u64 {
        self.epoch
    }

    fn find(&mut self, value: &'a Shared, stack: &mut Stack<'a>) {
        value.stamp.set(self.epoch, Origin::default());
        if !value.depends_on_params() {
            return;
        }
        if is_leaf(value) {
            self.leaves.push(Tensor::of(value));
            return;
        }
        if value.spent() > 0 {
            let found = || (name_of(value), value.spent());
            self.spent.get_or_insert_with(found);
            return;
        }
        match value.producer(self.edges) {
            Producer::Nothing => {}
            Producer::Op(args) => stack.push(value, value, 0, args),
            Producer::Part(op, out) => stack.push(value, op, out, op.operands(self.edges)),
        }
    }

    fn finish(&mut self, _: &WalkNode<'a>) {}
}

/// Returns whether a value stands for a parameter.
pub(super) fn is_leaf(value: &Value) -> bool {
    let statics = value.more.as_ref().map(|more| &more.statics[..]);
    value.op == Op::Custom && statics.and_then(LeafCode::of).is_some()
}
