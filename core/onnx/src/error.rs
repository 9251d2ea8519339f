//! Errors of the export.

use gradloom_ir::{DType, Op};
use std::fmt;
use std::path::PathBuf;

/// Reason why a program has no ONNX form.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ExportError {
    /// The dtype or a length of a value is unknown.
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
    /// ONNX has no form of the op, or of the op with these arguments.
    NoForm {
        /// The op.
        op: Op,
        /// The reason.
        reason: &'static str,
    },
    /// A constant is given for a position that is not that of a parameter, or twice.
    Constant {
        /// The position.
        position: usize,
        /// Number of parameters.
        n_params: usize,
    },
    /// The elements of a constant do not fit its parameter.
    Elements {
        /// Name of the parameter.
        parameter: String,
        /// Dtype and number of the elements.
        found: (DType, usize),
        /// Dtype and shape of the parameter.
        expected: (DType, Vec<usize>),
    },
    /// The model is larger than readers accept.
    TooLarge {
        /// Size of the model.
        bytes: usize,
    },
    /// The file cannot be written.
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        reason: String,
    },
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::UnknownType { op, aval } => {
                match op {
                    Some(op) => write!(f, "a result of `{op}` is `{aval}`")?,
                    None => write!(f, "a parameter is `{aval}`")?,
                }
                f.write_str(", expected numbers as lengths; export a trace")
            }
            ExportError::HostStatic { op, name, text } => write!(
                f,
                "`{name}` of `{op}` is the host expression `{text}`, which is known only at run time; export a trace"
            ),
            ExportError::NoForm { op, reason } => write!(f, "`{op}` has no ONNX form: {reason}"),
            ExportError::Constant { position, n_params } => write!(
                f,
                "a constant is given for parameter {position}, twice or out of range: there are {n_params} parameters"
            ),
            ExportError::Elements {
                parameter,
                found: (dtype, n),
                expected: (of, shape),
            } => write!(
                f,
                "the constant for `{parameter}` has {n} elements of {dtype}, expected those of {of}{shape:?}"
            ),
            ExportError::TooLarge { bytes } => write!(
                f,
                "the model has {bytes} bytes, and readers take up to {}; leave large weights parameters",
                super::MAX_BYTES
            ),
            ExportError::Write { path, reason } => {
                write!(f, "cannot write `{}`: {reason}", path.display())
            }
        }
    }
}

impl std::error::Error for ExportError {}
