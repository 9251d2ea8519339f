//! Batches of data for training: in random order, padded, and made ahead on a thread. Metrics of a run.
//!
//! ```
//! use gradloom::prelude::*;
//! use gradloom_data::{Batches, DataError, Tensors};
//!
//! let x = Tensor::arange(10, DType::F32).reshape([5, 2]);
//! let y = Tensor::arange(5, DType::I64);
//! let batches = Batches::new(Tensors::new((x, y))?, 2).shuffle(Key::new(0)).prefetch(4);
//! for epoch in 0..3 {
//!     for batch in batches.epoch(epoch) {
//!         let (x, y) = batch?;
//!         assert_eq!((x.dim(0), x.dim(1)), (y.dim(0), 2));
//!     }
//! }
//! # Ok::<(), DataError>(())
//! ```
//!
//! [`Dataset`] is what batches are made of: [`Tensors`] in memory, a folder of images with the feature `image`, or a type of the user.
//! [`Padded`] makes sequences of different lengths equal. [`Table`] reads columns of a CSV file, [`read_idx`] the files of
//! MNIST.
//!
//! [`Metrics`] writes the numbers of a run, such as its losses, as lines of JSON and for TensorBoard.

mod batches;
mod dataset;
mod elements;
mod error;
mod event_file;
mod idx;
#[cfg(feature = "image")]
mod images;
mod metrics;
mod padded;
mod table;
mod tensors;

pub use batches::{Batches, Epoch};
pub use dataset::{Dataset, stack};
pub use error::DataError;
pub use idx::{parse_idx, read_idx};
#[cfg(feature = "image")]
pub use images::ImageFolder;
pub use metrics::Metrics;
pub use padded::Padded;
pub use table::Table;
pub use tensors::Tensors;
