//! Errors of the export.

use gradloom_ir::{Op, OpError};
use std::fmt;

/// Reason why a program has no StableHLO form.
#[derive(Clone, Debug, PartialEq)]
pub enum ExportError {
    /// The dtype or a length of a value is unknown. [`specialise`](crate::specialise) gives lengths.
    UnknownType {
        /// The op that computes the value, or `None` for a parameter.
        op: Option<Op>,
        /// The known part of its type, as in `f32[B, 3]`.
        aval: String,
    },
    /// A static argument is a host expression, whose value is known only when the program runs.
    HostStatic {
        /// The op.
        op: Op,
        /// The name of the static argument.
        name: &'static str,
        /// The host expression.
        text: String,
    },
    /// The op runs host code: a custom function without a program, or a kernel of the user.
    HostCode {
        /// The op.
        op: Op,
        /// The name of the function or kernel.
        name: String,
    },
    /// The program calls another traced function. The program of a trace has the callee's ops instead.
    Call {
        /// The op.
        op: Op,
        /// The path of the callee.
        callee: String,
    },
    /// The op exists only to be transposed.
    OnlyTransposed {
        /// The op.
        op: Op,
    },
    /// The export has no form of the op.
    NoForm {
        /// The op.
        op: Op,
        /// The reason.
        reason: &'static str,
    },
    /// A spec is of a value that is still to be reduced over an axis.
    Partial {
        /// The spec.
        spec: String,
    },
    /// An op on the values of several devices is not in a `shard_map`.
    NoDevices {
        /// The op.
        op: Op,
    },
    /// The program has meshes with different numbers of devices, and XLA divides it over one.
    Meshes {
        /// The first mesh.
        first: String,
        /// A mesh with another number of devices.
        second: String,
    },
    /// The number of types given for the parameters is wrong.
    Arity {
        /// Number of types.
        found: usize,
        /// Number of parameters.
        expected: usize,
    },
    /// There is no parameter at the position of a donated argument.
    NoParameter {
        /// The position.
        position: usize,
        /// The number of parameters.
        n_params: usize,
    },
    /// An op refuses operands of the types given for the parameters.
    Refused(Box<OpError>),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::UnknownType { op, aval } => {
                match op {
                    Some(op) => write!(f, "a result of `{op}` is `{aval}`")?,
                    None => write!(f, "a parameter is `{aval}`")?,
                }
                f.write_str(
                    ": StableHLO wants numbers; give the types of the parameters to `specialise`",
                )
            }
            ExportError::HostStatic { op, name, text } => {
                write!(
                    f,
                    "`{name}` of `{op}` is the host expression `{text}`, which is known only at run time; export a trace"
                )
            }
            ExportError::HostCode { op, name } => {
                write!(
                    f,
                    "`{op}` runs the host code `{name}`, which has no program"
                )
            }
            ExportError::Call { op, callee } => {
                write!(
                    f,
                    "`{op}` calls `{callee}`, whose program is not part of this one; export a trace"
                )
            }
            ExportError::OnlyTransposed { op } => {
                write!(f, "`{op}` has no forward form: export its transpose")
            }
            ExportError::NoForm { op, reason } => {
                write!(f, "`{op}` has no StableHLO form: {reason}")
            }
            ExportError::Partial { spec } => {
                write!(
                    f,
                    "{spec} is partial, which Shardy cannot express; reduce the value first"
                )
            }
            ExportError::NoDevices { op } => write!(f, "`{op}` is not in a `shard_map`"),
            ExportError::Meshes { first, second } => write!(
                f,
                "the meshes {first} and {second} have different numbers of devices, and XLA divides a program over one"
            ),
            ExportError::Arity { found, expected } => {
                write!(f, "{found} types for {expected} parameters")
            }
            ExportError::NoParameter { position, n_params } => write!(
                f,
                "argument {position} is donated, and the number of parameters is {n_params}"
            ),
            ExportError::Refused(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl std::error::Error for ExportError {}
