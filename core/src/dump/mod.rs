//! Tracing to disk: records of tensors, and named values of traced functions.
//!
//! This module exists with the cargo feature `trace`. A record has the name, shape, dtype, hash and
//! root mean square of a tensor. The environment says where records go:
//!
//! | variable | meaning |
//! |---|---|
//! | `GRADLOOM_TRACE_DIR` | Folder of the trace. Unset or empty: nothing is traced. |
//! | `GRADLOOM_TRACE` | Names to trace, as in `model/blk?/*,!*/scores`: see [`Filter`]. If it is set, the named values of `#[traced]` functions are traced too. |
//! | `GRADLOOM_TRACE_FORMAT` | `files` (the default: a file for each record) or `jsonl` (one file). |
//! | `GRADLOOM_TRACE_VALUES` | `1` writes the elements too, in the safetensors format. |
//!
//! The variables are read once. [`with_config`] replaces them for a closure, which tests use.
//!
//! # Records that code asks for
//!
//! ```
//! use gradloom::dump::{Config, dump_trace, read, with_config};
//! use gradloom::prelude::*;
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let logits = Tensor::from([3.0f32, 4.0]);
//! with_config(Config::new(folder), || dump_trace("t0/logits", &logits))?;
//! let trace = read(folder)?;
//! assert_eq!(trace.entries[0].record.rms, 12.5f64.sqrt());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Trace points
//!
//! While `GRADLOOM_TRACE` is set, each `let` of a tensor in a `#[traced]` function is a trace point:
//!
//! ```
//! use gradloom::dump::{Config, read, with_config};
//! use gradloom::prelude::*;
//!
//! #[traced]
//! fn blk(x: &Tensor, w: &Tensor) -> Tensor {
//!     let h = x.matmul(w).tanh();
//!     x + h
//! }
//!
//! #[traced]
//! fn model(x: &Tensor, w: &Tensor) -> Tensor {
//!     let mut x = x * 1.0;
//!     for _ in 0..2 {
//!         x = blk(&x, w);
//!     }
//!     x.square().sum(..)
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path();
//! let (x, w) = (Tensor::ones([1, 2], DType::F32), Tensor::ones([2, 2], DType::F32));
//! let gradients = with_config(Config::new(folder).points("*/h"), || model::grad(&x, &w));
//! let names: Vec<_> = read(folder)?.entries.into_iter().map(|e| e.record.name).collect();
//! assert_eq!(names, ["model/blk0/h", "model/blk1/h", "model/blk1/ct_h", "model/blk0/ct_h"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - The name of a point is the path of calls, then the name in the source. In a loop, the path has
//!   the number of the iteration, from 0: after the name of a function that the loop calls, or as a
//!   part of its own before a name in the loop itself. A method `forward` has the name of its type
//!   in the path, and another method both names, as in `model.loss`.
//! - The stage is `forward` or `backward`. A backward record is the cotangent of the value, and has
//!   the name `ct_h`. `layer_idx` is the iteration of the innermost loop of the first function in
//!   the path that has a loop.
//! - While points are traced, traced functions run their bodies instead of plans, with the same bits.
//!   Results of derivatives are those of the companions, as always. The records of a backward pass
//!   come from a second derivative, of the recorded body, unless the body may have side effects:
//!   then this derivative is also the result, equal to rounding. See [`with_config`].
//! - The pass of [`Tensor::backward`](crate::Tensor::backward) has records, too, for the last 65,536 named values of
//!   the thread. The pullback of saved residuals has none.
//! - Under [`vmap`](crate::vmap()), and in the bodies of [`scan`](crate::scan()) and its relatives, a
//!   value has no elements while the code runs. Standard error names each such point once, and it
//!   has no record. A tensor with a batch prefix is recorded with all its axes.

mod point;
mod record;
mod state;

pub use gradloom_trace::{
    Config, Diff, Difference, Digest, ElementType, Entry, Error, Filter, Format, Item, Rename,
    Status, Trace, TraceRecord, ValueDifference, Values, Writer, diff, digest, digest_f32,
    parse_lines, read, read_values, report, sanitize_filename, write_values,
};
pub(crate) use point::{NotedPoint, PointLabel, PointNotes, label_of};
pub use point::{PointArg, PointLoop, TracePoint, TracePointOfRef, UntracedPoint, point_loop};
pub use record::{dump_trace, dump_trace_with_context};
pub use state::{Scope, is_enabled, scope, with_config};
pub use state::{Suspended, enter_function, is_tracing, suspend};
