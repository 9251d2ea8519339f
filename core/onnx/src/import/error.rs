//! Errors of the import.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Reason why a file is not a model that runs here, or why a model did not run. Nothing is half loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImportError {
    /// A file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The bytes are not a whole ONNX model.
    #[error("not a whole ONNX model: {reason}")]
    Format {
        /// The fault.
        reason: String,
    },
    /// An op, an attribute or a form of an op is not supported.
    #[error("node `{node}`: `{op}` is not supported: {reason}")]
    Unsupported {
        /// Type of the op.
        op: String,
        /// Name of the node, or of its first output.
        node: String,
        /// The part that is not supported.
        reason: String,
    },
    /// A node does not follow the specification of its op, or refers to a value that does not exist.
    #[error("node `{node}`: `{op}` {reason}")]
    Node {
        /// Type of the op.
        op: String,
        /// Name of the node, or of its first output.
        node: String,
        /// The fault.
        reason: String,
    },
    /// A node does not accept its inputs, or a value that it reads cannot be computed.
    #[error("node `{node}`: `{op}`: {source}")]
    Op {
        /// Type of the op.
        op: String,
        /// Name of the node, or of its first output.
        node: String,
        /// The error of the library.
        source: Box<gradloom::Error>,
    },
    /// An input, an output, an initializer or a weight is wrong.
    #[error("`{name}`: {reason}")]
    Value {
        /// Its name.
        name: String,
        /// The fault.
        reason: String,
    },
}

impl ImportError {
    pub(super) fn format(reason: impl Into<String>) -> ImportError {
        let reason = reason.into();
        ImportError::Format { reason }
    }

    pub(super) fn value(name: &str, reason: impl Into<String>) -> ImportError {
        let (name, reason) = (name.to_owned(), reason.into());
        ImportError::Value { name, reason }
    }
}
