use crate::Format;
use gradloom::DType;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a file cannot be loaded or saved. Nothing is half loaded, and no file is half written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file cannot be written. One that was there before is as it was.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A tree cannot be written in the format that the name of the file asks for.
    #[error("cannot write `{}` as a {format} file: {reason}", path.display())]
    Save {
        /// The file.
        path: PathBuf,
        /// The format of its name.
        format: Format,
        /// The reason.
        reason: String,
    },
    /// The file is not of its format.
    #[error("`{}` is not a whole {format} file: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format that its first bytes have, or its name.
        format: Format,
        /// What is wrong.
        reason: String,
    },
    /// A tensor has a dtype that this library has not.
    #[error("`{name}` in `{}` has the dtype {found}, which has no counterpart here", path.display())]
    UnknownDType {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its dtype.
        found: String,
    },
    /// The numbers of a tensor would be rounded or cut.
    #[error(
        "`{name}` in `{}` has the dtype {found}, and the leaf `{leaf}` has {expected:?}, which does not hold all of its \
         numbers; load a leaf of {wider:?} and cast it", path.display()
    )]
    Narrower {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its dtype.
        found: String,
        /// The leaf.
        leaf: String,
        /// The dtype of the leaf.
        expected: DType,
        /// A dtype that holds all numbers.
        wider: DType,
    },
    /// A tensor has another shape than its leaf.
    #[error("`{name}` in `{}` has the shape {found:?}, and the leaf `{leaf}` has {expected:?}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its shape.
        found: Box<[usize]>,
        /// The leaf.
        leaf: String,
        /// The shape of the leaf.
        expected: Box<[usize]>,
    },
    /// The tensors of the file are not those of the tree.
    #[error(
        "`{}` does not fit: missing {missing:?}, unexpected {unexpected:?}; rename them with `Loader::rename`, or accept \
         them with `Loader::lenient`", path.display()
    )]
    Names {
        /// The file.
        path: PathBuf,
        /// Names of leaves that the file does not have.
        missing: Vec<String>,
        /// Tensors of the file that no leaf takes.
        unexpected: Vec<String>,
    },
    /// Two leaves have the same name in the file.
    #[error("the leaves `{first}` and `{second}` have the same name in a file, `{name}`")]
    SameName {
        /// The name.
        name: String,
        /// The first leaf.
        first: String,
        /// The second leaf.
        second: String,
    },
    /// A leaf has no value to save, or a tensor cannot be made.
    #[error(transparent)]
    Tensor(#[from] gradloom::Error),
}
