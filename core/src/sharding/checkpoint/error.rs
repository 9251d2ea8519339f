//! Errors of checkpoints. Each names the file or the leaf.

use crate::{Aval, Error};
use std::io;
use std::path::PathBuf;

/// Reason why a checkpoint cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// A file or a folder cannot be written.
    #[error("cannot write `{}`: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The index is not valid.
    #[error("`{}` is not an index of a checkpoint: {reason}", path.display())]
    Index {
        /// The index.
        path: PathBuf,
        /// The contradiction, or the error of the parser.
        reason: String,
    },
    /// The version of the format is unknown.
    #[error("`{}` has version {found}, expected version {expected}: a later release of gradloom wrote it", path.display())]
    Version {
        /// The index.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The version that this release reads.
        expected: u64,
    },
    /// A file that the index lists is missing.
    #[error("`{}` is missing, and the index of the checkpoint lists it", path.display())]
    MissingFile {
        /// The file.
        path: PathBuf,
    },
    /// The index lists a file twice.
    #[error("`{}` lists `{file}` twice", path.display())]
    RepeatedFile {
        /// The index.
        path: PathBuf,
        /// Name of the file.
        file: String,
    },
    /// The length of a file is not that in the index.
    #[error("`{}` has {found} bytes, expected {expected}: it is torn", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// Its length.
        found: u64,
        /// The length in the index.
        expected: u64,
    },
    /// The hash of a file is not that in the index.
    #[error("`{}` does not have the hash that the index lists: its bytes were changed", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The contents of a file are not those that the index lists.
    #[error("`{}` is not a file of this checkpoint: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The difference.
        reason: String,
    },
    /// Two leaves have the same path.
    #[error("two leaves have the path `{leaf}`, so a checkpoint cannot tell them apart")]
    RepeatedLeaf {
        /// Path of the leaves.
        leaf: String,
    },
    /// The tree has a leaf that the checkpoint does not have.
    #[error("the checkpoint `{}` has no leaf `{leaf}`", path.display())]
    MissingLeaf {
        /// The index.
        path: PathBuf,
        /// Path of the leaf.
        leaf: String,
    },
    /// The checkpoint has a leaf that the tree does not have.
    #[error("the checkpoint `{}` has a leaf `{leaf}`, and the tree has none of this path", path.display())]
    ExtraLeaf {
        /// The index.
        path: PathBuf,
        /// Path of the leaf.
        leaf: String,
    },
    /// A leaf has another dtype or shape.
    #[error("`{leaf}` is {found} in the checkpoint, expected {expected}")]
    Mismatch {
        /// Path of the leaf.
        leaf: String,
        /// Dtype and shape in the checkpoint.
        found: String,
        /// Aval of the leaf of the tree.
        expected: Aval,
    },
    /// A box is not one of its leaf.
    #[error("`{file}` has the box {region} of `{leaf}`, whose shape is {shape:?}")]
    Outside {
        /// Path of the leaf.
        leaf: String,
        /// The box.
        region: String,
        /// Name of the file.
        file: String,
        /// Shape of the leaf.
        shape: Vec<usize>,
    },
    /// Two boxes of a leaf overlap.
    #[error(
        "the boxes {} in `{}` and {} in `{}` of `{leaf}` overlap",
        regions[0], files[0], regions[1], files[1]
    )]
    Overlap {
        /// Path of the leaf.
        leaf: String,
        /// The boxes.
        regions: [String; 2],
        /// Names of their files.
        files: [String; 2],
    },
    /// The boxes of a leaf do not cover it.
    #[error("the boxes of `{leaf}` have {covered} of its {numel} elements")]
    NotCovered {
        /// Path of the leaf.
        leaf: String,
        /// Number of elements of all boxes.
        covered: usize,
        /// Number of elements of the leaf.
        numel: usize,
    },
    /// A leaf cannot be computed or placed.
    #[error("`{leaf}`: {source}")]
    Tensor {
        /// Path of the leaf.
        leaf: String,
        /// The error of the tensor.
        source: Box<Error>,
    },
    /// A spec does not fit its leaf or the mesh.
    #[error(transparent)]
    Specs(Box<Error>),
}
