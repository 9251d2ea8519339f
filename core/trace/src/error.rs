//! Errors of traces. Each names the file.

use std::io;
use std::path::PathBuf;

/// Reason why a record could not be written, or a trace not be read or compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder of a trace cannot be created.
    #[error("cannot create the folder `{}`: {source}", path.display())]
    Directory {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file or folder cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A record cannot be written as JSON.
    #[error("cannot write the record `{name}` as JSON: {source}")]
    Serialize {
        /// Name of the record.
        name: String,
        /// The error of the serialiser.
        source: serde_json::Error,
    },
    /// A text is not a record.
    #[error("`{}`{}: {source}", path.display(), at_line(*line))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line of the record in a file of JSON lines, from 1.
        line: Option<usize>,
        /// The error of the parser, with line and column.
        source: serde_json::Error,
    },
    /// A record contradicts itself.
    #[error("`{}`{}: {what}", path.display(), at_line(*line))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Line of the record in a file of JSON lines, from 1.
        line: Option<usize>,
        /// Description of the contradiction.
        what: String,
    },
    /// A file of elements contradicts its record.
    #[error("`{}`: expected {expected} of the record `{name}`, found {found}", path.display())]
    Contradiction {
        /// The file of elements.
        path: PathBuf,
        /// Name of the record.
        name: String,
        /// Shape or element type of the record.
        expected: String,
        /// Shape or element type of the file.
        found: String,
    },
    /// A trace has no records.
    #[error("`{}` has no records, so there is nothing to compare", path.display())]
    Empty {
        /// The trace.
        path: PathBuf,
    },
    /// No record of one trace has the name of a record of the other.
    #[error("no record of `{}` has the name of a record of `{}`, so there is nothing to compare", a.display(), b.display())]
    Disjoint {
        /// The first trace.
        a: PathBuf,
        /// The second trace.
        b: PathBuf,
    },
    /// The values of a tensor cannot be computed or converted.
    #[error("cannot trace `{name}`: {source}")]
    Tensor {
        /// Name of the record.
        name: String,
        /// The error of the tensor library.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

fn at_line(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}
