//! Numbers that the body of a call records, and their origins among the arguments of the call.
//!
//! The macro lists the *values* of a call: its number arguments, and the results of arithmetic on them,
//! that are operands of tensors. They reach the ops of the body as [`Op::Scalar`](gradloom_ir::Op::Scalar)
//! only. Two recordings with other arguments therefore differ in the numbers that they record and in
//! nothing else, and such a number has the value from which it comes in both of them.

use crate::Aval;
use crate::graph::handle::Handle;
use crate::graph::value::{Shared, ValueSource};
use gradloom_ir::Static;
use gradloom_ir::op::shape;
use gradloom_kernels::memory::Buffer;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// A number, compared by its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    Int(i64),
    /// Bits of an `f64`.
    Float(u64),
    /// A number that the body computes and does not record as it is.
    Unrecorded,
}

impl Number {
    /// Returns the number of a static argument, if it is one.
    pub(crate) fn of(value: &Static) -> Option<Number> {
        match value {
            Static::Int(n) => Some(Number::Int(*n)),
            Static::Float(x) => Some(Number::Float(x.to_bits())),
            _ => None,
        }
    }

    fn to_static(self) -> Static {
        match self {
            Number::Int(n) => Static::Int(n),
            Number::Float(bits) => Static::Float(f64::from_bits(bits)),
            Number::Unrecorded => unreachable!("no op records it"),
        }
    }

    /// Returns whether both are integers, or both are floats.
    fn is_like(self, other: Number) -> bool {
        matches!(self, Number::Int(_)) == matches!(other, Number::Int(_))
    }
}

/// A value of a call: a number argument, or the result of arithmetic on number arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberValue {
    /// Set of the number arguments that it depends on.
    pub(crate) params: u64,
    /// `None` if the arithmetic overflows, so that the body panics.
    pub(crate) number: Option<Number>,
}

/// The values of a call.
pub(crate) type NumberValues = SmallVec<[NumberValue; 2]>;

/// A number of a plan that is computed by each call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NumberLeaf {
    /// Index of its value.
    value: u32,
    /// The number at the time of recording. Later ones are integers if it is one.
    like: Number,
    aval: Aval,
}

impl NumberLeaf {
    /// Returns whether the leaf can have its value among `values`.
    pub(crate) fn accepts(&self, values: &[NumberValue]) -> bool {
        let number = values.get(self.value as usize).and_then(|v| v.number);
        let Some(number) = number.filter(|number| number.is_like(self.like)) else {
            return false;
        };
        shape::holds(&number.to_static(), Some(self.aval.dtype())).is_ok()
    }

    /// Returns a tensor with the value of the leaf, which [accepts](Self::accepts) it.
    fn tensor(&self, values: &[NumberValue]) -> Handle {
        let number = values[self.value as usize].number.unwrap_or(self.like);
        tensor(number, &self.aval)
    }
}

/// Returns the number as a realised value.
fn tensor(number: Number, aval: &Aval) -> Handle {
    let buffer = Buffer::of_static(&number.to_static(), aval.dtype());
    Handle::new(aval, ValueSource::Elements(Arc::new(buffer)))
}

/// The numbers of a recording, and the values of its call.
pub(crate) struct NumberTrace {
    values: NumberValues,
    recorded: Vec<Number>,
}

/// The numbers of a cached call that are arguments of its plan, after the leaves of the key.
pub(crate) struct NumberLeaves {
    /// Set of the number arguments that the key need not contain.
    pub(crate) params: u64,
    leaves: SmallVec<[NumberLeaf; 2]>,
    /// The value of each number that is recorded, or `None` if all calls record the same number.
    sources: Box<[Option<u32>]>,
}

impl NumberLeaves {
    /// Returns whether each leaf can have its value among `values`, and the body does not panic in arithmetic on
    /// the numbers that are not in the key.
    pub(crate) fn accept(&self, values: &[NumberValue]) -> bool {
        let mut computed = values
            .iter()
            .filter(|value| value.params & self.params != 0);
        computed.all(|value| value.number.is_some())
            && self.leaves.iter().all(|leaf| leaf.accepts(values))
    }

    /// Returns the leaves, with their values among `values`.
    pub(crate) fn tensors(&self, values: &[NumberValue]) -> SmallVec<[Handle; 2]> {
        self.leaves.iter().map(|leaf| leaf.tensor(values)).collect()
    }
}

/// How a recording finds the origins of its numbers.
enum Origins {
    Unknown,
    /// By comparison with an earlier recording, whose number arguments in the set `changed` differ.
    Compared {
        earlier: Rc<NumberTrace>,
        changed: u64,
    },
    /// As in the cached call that the recording checks.
    Cached(Arc<NumberLeaves>),
}

/// A recording whose numbers are noted.
struct Recording {
    origins: Origins,
    values: NumberValues,
    recorded: Vec<Number>,
    sources: Vec<Option<u32>>,
    leaves: Vec<(NumberLeaf, Shared)>,
    /// True if the origin of a number is not clear.
    failed: bool,
}

/// Outcome of a recording. It is empty if no numbers were noted.
#[derive(Default)]
pub(crate) struct RecordedNumbers {
    pub(crate) trace: Option<NumberTrace>,
    /// The numbers that become arguments of the plan, and their present values.
    pub(crate) found: Option<(NumberLeaves, Vec<Shared>)>,
    /// True if some numbers were recorded as tensors before the origin of another one was found to be unclear.
    /// Later recordings have other ops, so they cannot be compared with this one.
    pub(crate) is_mixed: bool,
}

thread_local! {
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
    static RECORDING: RefCell<Option<Box<Recording>>> = const { RefCell::new(None) };
}

/// Begins to note the numbers of a recording with these values. `earlier` is a recording to compare with, and the
/// set of the number arguments that differ.
pub(crate) fn begin(values: &NumberValues, earlier: Option<(Rc<NumberTrace>, u64)>) {
    let origins = match earlier {
        Some((earlier, changed)) => Origins::Compared { earlier, changed },
        None => Origins::Unknown,
    };
    start(values, origins, Vec::new());
}

/// Begins a recording that checks a cached call. Returns the present values of its numbers.
pub(crate) fn begin_check(values: &NumberValues, cached: &Arc<NumberLeaves>) -> Vec<Shared> {
    let tensors = cached.tensors(values).into_iter().map(Handle::into_shared);
    let tensors: Vec<Shared> = tensors.collect();
    let leaves = cached.leaves.iter().cloned().zip(tensors.iter().cloned());
    start(values, Origins::Cached(cached.clone()), leaves.collect());
    tensors
}

fn start(values: &NumberValues, origins: Origins, leaves: Vec<(NumberLeaf, Shared)>) {
    let recording = Recording {
        origins,
        values: values.clone(),
        recorded: Vec::new(),
        sources: Vec::new(),
        leaves,
        failed: false,
    };
    // While a thread exits, no number becomes an argument.
    let started = RECORDING.try_with(|r| r.replace(Some(Box::new(recording))));
    ACTIVE.set(started.is_ok());
}

/// Ends the recording.
pub(crate) fn end() -> Option<RecordedNumbers> {
    if !ACTIVE.replace(false) {
        return None;
    }
    let recording = RECORDING.try_with(RefCell::take).ok().flatten()?;
    Some(recording.finish())
}

/// Notes a number that an op records, and returns its value if that is an argument of the plan.
#[inline]
pub(crate) fn noted(value: &Static, aval: &Aval) -> Option<Shared> {
    if !ACTIVE.get() {
        return None;
    }
    let noted = RECORDING.try_with(|r| r.borrow_mut().as_mut()?.note(Number::of(value)?, aval));
    noted.ok().flatten()
}

impl Recording {
    fn note(&mut self, number: Number, aval: &Aval) -> Option<Shared> {
        let i = self.recorded.len();
        self.recorded.push(number);
        let source = match &self.origins {
            Origins::Unknown => return None,
            Origins::Compared { earlier, changed } => {
                let before = earlier.recorded.get(i).copied();
                before.ok_or(()).and_then(|before| {
                    source(&earlier.values, before, &self.values, number, *changed)
                })
            }
            Origins::Cached(cached) => match cached.sources.get(i).copied() {
                Some(Some(source)) => {
                    let value = self.values[source as usize].number;
                    (value == Some(number)).then_some(Some(source)).ok_or(())
                }
                found => found.ok_or(()),
            },
        };
        self.failed |= source.is_err();
        let source = source.ok().flatten();
        self.sources.push(source);
        let value = source.filter(|_| !self.failed)?;
        let mut leaves = self.leaves.iter();
        let same = leaves.find(|(leaf, _)| leaf.value == value && leaf.aval == *aval);
        if let Some((_, tensor)) = same {
            return Some(tensor.clone());
        }
        if let Origins::Cached(_) = self.origins {
            self.failed = true;
            return None;
        }
        let made = tensor(number, aval).into_shared();
        let leaf = NumberLeaf {
            value,
            like: number,
            aval: aval.clone(),
        };
        self.leaves.push((leaf, made.clone()));
        Some(made)
    }

    fn finish(self) -> RecordedNumbers {
        let (params, n) = match &self.origins {
            Origins::Unknown => (0, None),
            Origins::Compared { earlier, changed } => (*changed, Some(earlier.recorded.len())),
            Origins::Cached(cached) => (cached.params, Some(cached.sources.len())),
        };
        let is_found = !self.failed && n == Some(self.recorded.len());
        let is_mixed = !is_found && !self.leaves.is_empty();
        let found = is_found.then(|| {
            let (leaves, tensors): (SmallVec<_>, Vec<_>) = self.leaves.into_iter().unzip();
            let leaves = NumberLeaves {
                params,
                leaves,
                sources: self.sources.into(),
            };
            (leaves, tensors)
        });
        RecordedNumbers {
            trace: Some(NumberTrace {
                values: self.values,
                recorded: self.recorded,
            }),
            found,
            is_mixed,
        }
    }
}

/// Returns the value from which a number comes that was `before` in an earlier recording, or `None` if
/// it depends on no argument that changed.
///
/// Fails if several values are possible. A number that is the same in both recordings may be an equal
/// value of both.
fn source(
    earlier: &[NumberValue],
    before: Number,
    values: &[NumberValue],
    number: Number,
    changed: u64,
) -> Result<Option<u32>, ()> {
    let pairs = (0..).zip(earlier.iter().zip(values));
    let mut possible = pairs.filter(|(_, (old, new))| {
        new.params & changed != 0 && old.number == Some(before) && new.number == Some(number)
    });
    let first = possible.next().map(|(i, _)| i);
    match (first, possible.next(), before == number) {
        (None, _, true) => Ok(None),
        (Some(i), None, false) => Ok(Some(i)),
        _ => Err(()),
    }
}
