//! Errors in the operands of an op. The macro and the runtime print the same messages.

use crate::ops::Operands;
use crate::{Aval, DType, Op, Shape};
use std::fmt;

/// An error in the operands or static arguments of an op.
#[derive(Clone, Debug, PartialEq)]
pub struct OpError {
    /// The op.
    pub op: Op,
    /// The name that users call the op by: a method of `Tensor` or of a key, else the op's name.
    pub called: &'static str,
    /// The data operands, as far as they are known.
    pub args: Vec<Aval>,
    /// The error.
    pub fault: Fault,
}

impl std::error::Error for OpError {}

impl OpError {
    /// Returns the message, with a description for each operand, such as "`x` is [2, 3]".
    ///
    /// Empty descriptions are left out.
    pub fn message(&self, operands: &[String]) -> String {
        let mut message = match self.op {
            // Users write the number, not the op that makes a tensor of it.
            Op::Scalar => Problem(&self.fault).to_string(),
            _ => format!("{}: {}", self.called, Problem(&self.fault)),
        };
        let mut joint = ": ";
        for operand in operands.iter().filter(|o| !o.is_empty()) {
            message = message + joint + operand;
            joint = ", ";
        }
        if let Some(advice) = self.fault.advice(self.op) {
            message = message + "; " + &advice;
        }
        message
    }
}

/// Describes the operands by position, because their names are unknown here.
impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operands = self.args.iter().enumerate().map(|(i, aval)| {
            let fixed = matches!(
                self.op.def().operands(),
                Operands::Fixed(..) | Operands::Between(..)
            );
            let place = match (self.args.len(), i) {
                _ if *aval == Aval::UNKNOWN => return String::new(),
                (1, _) => "the operand".to_owned(),
                (2, 0) if fixed => "the left operand".to_owned(),
                (2, _) if fixed => "the right operand".to_owned(),
                _ => format!("operand {}", i + 1),
            };
            format!("{place} is {aval}")
        });
        f.write_str(&self.message(&operands.collect::<Vec<_>>()))
    }
}

/// The reason why an op refuses its operands or static arguments.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// Two operands cannot be broadcast together.
    Broadcast {
        /// The axis of the result, counted from the left.
        axis: usize,
        /// Its length in the first operand.
        left: String,
        /// Its length in the second operand.
        right: String,
    },
    /// Two operands have different dtypes.
    MixedDTypes {
        /// The dtype of the first operand.
        left: DType,
        /// The dtype of the second operand.
        right: DType,
    },
    /// The op does not take this dtype.
    DType {
        /// The dtype of the operand.
        found: DType,
        /// The dtypes that the op takes, in words: `a float`.
        expected: &'static str,
    },
    /// A number cannot be represented in a dtype.
    Lossy {
        /// The number.
        value: f64,
        /// The dtype.
        dtype: DType,
    },
    /// The operand does not have this axis.
    Axis {
        /// The axis as the user wrote it.
        axis: i64,
        /// The rank of the operand.
        rank: usize,
    },
    /// An axis is named twice.
    RepeatedAxis {
        /// The axis as the user wrote it.
        axis: i64,
    },
    /// The op does not take operands of this rank.
    Rank {
        /// The rank of the operand.
        found: usize,
        /// The ranks that the op takes, in words: `at least 1`.
        expected: String,
    },
    /// The inner dims of a matrix product differ.
    Inner {
        /// The last dim of the left operand.
        left: String,
        /// The dim of the right operand that must be equal to it.
        right: String,
    },
    /// A dim has the wrong length.
    Length {
        /// The dim, in words: `axis 1 of operand 2`.
        what: String,
        /// Its length.
        found: String,
        /// The length it must have.
        expected: String,
    },
    /// A reshape would change the number of elements.
    Elements {
        /// The number of elements of the operand.
        found: String,
        /// The requested shape.
        shape: String,
    },
    /// A requested shape has a negative dim, or two dims to infer.
    BadShape {
        /// The requested shape.
        shape: String,
    },
    /// An operand cannot be broadcast to a shape.
    BroadcastTo {
        /// The requested shape.
        shape: Box<Shape>,
    },
    /// A maximum or minimum over no elements.
    EmptyReduction {
        /// The axis of length 0.
        axis: usize,
    },
    /// A slice does not lie inside its axis.
    Slice {
        /// The axis.
        axis: usize,
        /// The first index, and the index after the last unless it is the end of the axis: `1..4`.
        range: String,
        /// The step, which is not 0.
        step: i64,
        /// The length of the axis.
        len: String,
    },
    /// An axis does not have this index.
    Index {
        /// The axis.
        axis: usize,
        /// The index as the user wrote it.
        index: i64,
        /// The length of the axis.
        len: usize,
    },
    /// A slice has a step that is not positive.
    Step {
        /// The step.
        step: i64,
    },
    /// The parts of a split do not add up to the length of the axis.
    Parts {
        /// The requested parts, in words.
        asked: String,
        /// The length of the axis.
        len: String,
    },
    /// A shape has more elements than can be addressed.
    Overflow {
        /// The shape.
        shape: String,
    },
    /// A shape has more axes than [`MAX_RANK`](crate::MAX_RANK).
    TooManyAxes {
        /// The requested rank.
        rank: usize,
    },
    /// The op was given the wrong number of operands or static arguments.
    Arity {
        /// The number given.
        found: usize,
        /// The number expected, in words.
        expected: String,
    },
    /// A probability is not between 0 and 1.
    Probability {
        /// The number.
        p: f64,
    },
    /// Host code refuses its operands, or is missing.
    Code {
        /// The reason.
        reason: String,
    },
    /// A program for the devices of a mesh is wrong.
    Sharding {
        /// The reason.
        reason: String,
    },
    /// A static argument is of the wrong kind.
    Static {
        /// The name of the argument.
        name: &'static str,
        /// The value given.
        found: String,
    },
}

impl Fault {
    /// Returns how to fix the error, if the message does not already imply it.
    fn advice(&self, op: Op) -> Option<String> {
        match *self {
            Fault::MixedDTypes { left, right } => {
                let (narrow, wide) = if holds_more(left, right) {
                    (right, left)
                } else {
                    (left, right)
                };
                Some(format!(
                    "cast the {narrow} operand, as in `.cast(DType::{wide:?})`"
                ))
            }
            Fault::Lossy { value, .. } => {
                let integer = value.fract() == 0.0 && value.abs() < -(i64::MIN as f64);
                Some(match (op, integer) {
                    (Op::Full, true) => "give `DType::I64`".to_owned(),
                    (Op::Full, false) => "give a float dtype".to_owned(),
                    (_, true) => "cast the tensor to i64 first".to_owned(),
                    (_, false) => "cast the tensor to a float first".to_owned(),
                })
            }
            _ => None,
        }
    }
}

/// Returns whether a cast from `other` to `dtype` loses less than the opposite cast.
///
/// A cast can lose fractions, digits or the gradient.
fn holds_more(dtype: DType, other: DType) -> bool {
    let order = [
        DType::Bool,
        DType::U8,
        DType::I8,
        DType::I32,
        DType::I64,
        DType::BF16,
        DType::F16,
        DType::F32,
        DType::F64,
    ];
    let place = |dtype| order.iter().position(|d| *d == dtype);
    place(dtype) > place(other)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Problem(self))
    }
}

/// The message of a fault, without the advice.
struct Problem<'a>(&'a Fault);

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Fault::Broadcast { axis, left, right } => {
                write!(
                    f,
                    "axis {axis} is {left} on the left and {right} on the right"
                )
            }
            Fault::MixedDTypes { left, right } => {
                write!(f, "the dtypes are {left} and {right}")
            }
            Fault::DType { found, expected } => {
                write!(f, "the dtype is {found}, expected {expected}")
            }
            Fault::Lossy { value, dtype } => {
                match value.fract() == 0.0 && value.abs() < -(i64::MIN as f64) {
                    true => write!(f, "{value:.0} is not a value of {dtype}"),
                    false => write!(f, "{value:?} is not a value of {dtype}"),
                }
            }
            Fault::Axis { axis, rank } if *rank == crate::MAX_RANK => {
                write!(
                    f,
                    "axis {axis} is out of range: a tensor has at most {rank} axes"
                )
            }
            Fault::Axis { axis, rank } => {
                write!(f, "axis {axis} is out of range for rank {rank}")
            }
            Fault::RepeatedAxis { axis } => write!(f, "axis {axis} is named twice"),
            Fault::Rank { found, expected } => {
                write!(f, "the rank is {found}, expected {expected}")
            }
            // The message shows both operands, so it need not repeat the dims.
            Fault::Inner { .. } => f.write_str("inner dimensions differ"),
            Fault::Length {
                what,
                found,
                expected,
            } => {
                write!(f, "{what} is {found}, expected {expected}")
            }
            Fault::Elements { found, shape } => {
                write!(f, "{found} elements cannot be reshaped to {shape}")
            }
            Fault::BadShape { shape } => {
                write!(
                    f,
                    "{shape} is not a shape: dims are 0 or more, and at most one is -1 (to be inferred)"
                )
            }
            Fault::BroadcastTo { shape } => write!(f, "the operand does not broadcast to {shape}"),
            Fault::EmptyReduction { axis } => {
                write!(
                    f,
                    "axis {axis} has length 0, and the maximum or minimum of no elements is not defined"
                )
            }
            Fault::Slice {
                axis,
                range,
                step,
                len,
            } => {
                write!(f, "{range}")?;
                match step {
                    ..0 => write!(f, " by {step} does not run down inside of axis {axis}")?,
                    _ => write!(f, " does not lie in axis {axis}")?,
                }
                write!(f, ", which has length {len}")
            }
            Fault::Index { axis, index, len } => {
                write!(
                    f,
                    "index {index} is out of range for axis {axis}, of length {len}"
                )
            }
            Fault::Step { step } => write!(f, "the step is {step}, expected another number"),
            Fault::Parts { asked, len } => {
                write!(f, "an axis of length {len} cannot be split into {asked}")
            }
            Fault::Overflow { shape } => {
                write!(f, "{shape} has more elements than can be addressed")
            }
            Fault::TooManyAxes { rank } => {
                write!(
                    f,
                    "the rank is {rank}, and the limit is {}",
                    crate::MAX_RANK
                )
            }
            Fault::Arity { found, expected } => {
                write!(f, "expected {expected}, found {found} arguments")
            }
            Fault::Probability { p } => {
                write!(f, "`p` is {p:?}, expected a value from 0 to 1")
            }
            Fault::Code { reason } | Fault::Sharding { reason } => f.write_str(reason),
            Fault::Static { name, found } => write!(f, "`{name}` cannot be {found}"),
        }
    }
}
