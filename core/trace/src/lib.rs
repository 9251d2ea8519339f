//! Records of tensors on disk, and the comparison of two traces.
//!
//! A *record* describes one tensor: its name, shape, dtype, a hash and the root mean square of its
//! elements. A *trace* is a list of records in the order of execution: a folder of `.trace` files, or
//! a file of JSON lines. This crate knows no tensors. `gradloom` with the feature `trace` writes
//! records, and `trace-diff` compares two traces:
//!
//! ```
//! use gradloom_trace::{Config, Writer, diff, digest_f32, read};
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! for (run, last) in [("a", 3.0), ("b", 4.0)] {
//!     let writer = Writer::new(Config::new(folder.join(run)));
//!     for (name, value) in [("blk0/h", [1.0, 2.0]), ("blk1/h", [2.0, last])] {
//!         writer.write(&digest_f32(&value).record(name, &[2], "F32"), None, None)?;
//!     }
//! }
//! let diff = diff(&read(&folder.join("a"))?, &read(&folder.join("b"))?, 0.0)?;
//! assert_eq!(diff.first().unwrap().name, "blk1/h");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod compare;
mod config;
mod diff;
mod digest;
mod error;
mod glob;
mod json;
mod name;
mod read;
mod record;
pub mod report;
mod values;
mod write;

pub use compare::ValueDifference;
pub use config::{Config, Format};
pub use diff::{Diff, Difference, Item, Status, diff};
pub use digest::{Digest, digest, digest_f32};
pub use error::Error;
pub use glob::{Filter, Rename};
pub use json::parse_lines;
pub use name::sanitize_filename;
pub use read::{Entry, Trace, read};
pub use record::TraceRecord;
pub use values::{ElementType, Values, read_values, write_values};
pub use write::Writer;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
