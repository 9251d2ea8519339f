//! Files of weights: a tree of tensors is saved and loaded by the paths of its leaves.
//!
//! ```
//! use gradloom::prelude::*;
//! use gradloom_files::{load, save};
//!
//! #[derive(Clone, Tree)]
//! struct Linear { weight: Tensor, bias: Tensor }
//!
//! let linear = |x: f32| Linear { weight: Tensor::from([[x]]), bias: Tensor::from([x]) };
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("model.safetensors");
//! save(&linear(2.0), &path).unwrap();
//! let model = load(&linear(0.0), &path).unwrap();
//! assert_eq!(model.weight.to_vec::<f32>(), [2.0]);
//! ```
//!
//! A file is in the format of safetensors, in NumPy's npy or npz, or a checkpoint of PyTorch, which is only read: see
//! [`Format`].
//!
//! The leaf `layers[0].weight` has the name `layers.0.weight` in a file, as in PyTorch. [`Loader`] takes other names,
//! and loads what is there if a part is missing. [`TensorFile`] reads single tensors.
//! A file is read where a tensor needs it, and not as a whole. [`TensorFile::map`] copies nothing: the tensors are in the
//! pages of the file. [`Checkpoints`] keep the state of a training run.

mod archive;
mod bytes;
mod checkpoints;
mod dtype;
mod entry;
mod error;
mod format;
mod loader;
mod npy;
mod pickle;
mod safetensors;
mod tensor_file;
mod torch;

pub use checkpoints::{Checkpoints, Latest};
pub use error::FileError;
pub use format::Format;
pub use loader::{Loader, Report, load, save};
pub use tensor_file::TensorFile;
