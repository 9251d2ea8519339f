//! Errors of sharded programs.

use crate::sharding::{AxisRef, ShardingError};
use std::fmt;

/// The reason why a program cannot be sharded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpmdError {
    /// The dtype or the shape of a value is not known.
    Unknown {
        /// The name of the value.
        value: String,
        /// Dtype and shape, as far as they are known.
        aval: String,
    },
    /// A spec does not fit.
    Spec {
        /// The value that the spec is for.
        value: String,
        /// The reason.
        error: ShardingError,
    },
    /// The number of specs differs from that of the parameters, or of the results.
    Count {
        /// The values that the specs are for: `parameters` or `results`.
        of: &'static str,
        /// The number of specs.
        found: usize,
        /// The number of values.
        expected: usize,
    },
    /// A value must be whole along an axis, and the spec says that it is partial.
    ///
    /// Only parameters can be partial.
    Partial {
        /// The value.
        value: String,
        /// The axis.
        axis: AxisRef,
    },
    /// A parameter is partial, and must be whole or split here.
    PartialParam {
        /// The parameter.
        value: String,
        /// The axis.
        axis: AxisRef,
    },
    /// The program calls another function, whose program is not known here.
    Call {
        /// The op.
        op: String,
    },
}

impl std::error::Error for SpmdError {}

impl fmt::Display for SpmdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpmdError::Unknown { value, aval } => write!(
                f,
                "`{value}` is {aval}: a program is sharded only if all dtypes and shapes are known"
            ),
            SpmdError::Spec { value, error } => write!(f, "the spec of `{value}`: {error}"),
            SpmdError::Count {
                of,
                found,
                expected,
            } => write!(f, "there are {found} specs for {expected} {of}"),
            SpmdError::Partial { value, axis } => write!(
                f,
                "the spec of `{value}` is partial along {axis}; only parameters can be partial"
            ),
            SpmdError::PartialParam { value, axis } => write!(
                f,
                "`{value}` is partial along {axis}, which an operand of a `shard_map` cannot be"
            ),
            SpmdError::Call { op } => write!(
                f,
                "`{op}` calls a function whose program is not known; inline it first"
            ),
        }
    }
}
