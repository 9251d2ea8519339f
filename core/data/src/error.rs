use std::error::Error;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a file cannot be read or written, or a batch cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file or folder cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file or folder cannot be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A folder for the metrics of a run has those of another one.
    #[error("`{}` has the metrics of a run; choose another folder, or continue it by `Metrics::resume`", folder.display())]
    RunExists {
        /// The folder.
        folder: PathBuf,
    },
    /// Two metrics of a record have the same name.
    #[error("the metrics of step {step} have the name `{name}` twice")]
    MetricTwice {
        /// The step.
        step: u64,
        /// The name.
        name: String,
    },
    /// A file is not of its format.
    #[error("`{file}` is not a whole {format} file: {reason}")]
    Format {
        /// The file.
        file: String,
        /// The format.
        format: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A cell of a table is not a value of the dtype.
    #[error("`{file}`, row {row}, column `{column}`: `{found}` is not a value of type {expected}")]
    Cell {
        /// The table.
        file: String,
        /// The row, from 1. The names of columns and empty lines are not rows.
        row: usize,
        /// Name of the column.
        column: String,
        /// Text of the cell.
        found: String,
        /// The type of the elements.
        expected: &'static str,
    },
    /// A table has no column of this name.
    #[error("`{file}` has no column `{column}`; it has {found:?}")]
    Column {
        /// The table.
        file: String,
        /// The name.
        column: String,
        /// Names of its columns.
        found: Vec<String>,
    },
    /// The leaves of a tree do not have the same number of examples.
    #[error("the leaf `{leaf}` has the shape {found:?}, expected {expected} examples on axis 0")]
    Examples {
        /// Path of the leaf.
        leaf: String,
        /// Its shape.
        found: Vec<usize>,
        /// Number of examples of the first leaf.
        expected: usize,
    },
    /// The examples of a batch do not have the same leaves.
    #[error(
        "the leaf `{leaf}` is {found} in one example of a batch, and {expected} in the first one"
    )]
    Stack {
        /// Path of the leaf.
        leaf: String,
        /// Dtype and shape in an example.
        found: String,
        /// Those in the first example of the batch.
        expected: String,
    },
    /// A sequence is longer than the length to pad to.
    #[error("a sequence has the length {found}, and `pad_to` is {expected}")]
    TooLong {
        /// Its length.
        found: usize,
        /// The length to pad to.
        expected: usize,
    },
    /// A number to pad with is not one of a dtype.
    #[error("the leaf `{leaf}` cannot be padded with {value}, which is not a value of {dtype:?}")]
    PadValue {
        /// Path of the leaf.
        leaf: String,
        /// The number.
        value: f64,
        /// The dtype of the leaf.
        dtype: gradloom::DType,
    },
    /// A dataset of the user fails.
    #[error("example {index}: {source}")]
    Example {
        /// Index of the example.
        index: usize,
        /// The reason.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A tensor cannot be computed or made.
    #[error(transparent)]
    Tensor(#[from] gradloom::Error),
}
