//! Report of the calls of traced functions.
//!
//! It tells how often each was called, planned or recorded, why, and how long it took.
//!
//! A function whose calls are often recorded or planned is slower than necessary; the last column
//! gives the reason.
//!
//! ```
//! use gradloom::prelude::*;
//! use gradloom::report;
//!
//! #[traced]
//! fn shifted(x: &Tensor, by: f64) -> Tensor {
//!     x + Tensor::full([2], by, DType::F32)
//! }
//!
//! report::start(); // measures times from now on
//! let x = Tensor::from([1.0f32, 2.0]);
//! for turn in 0..5 {
//!     shifted(&x, 0.5 + f64::from(turn));
//! }
//! let report = gradloom::report();
//! let function = report.functions().iter().find(|f| f.name.ends_with("shifted")).unwrap();
//! assert_eq!((function.calls(), function.planned), (5, 5));
//! assert_eq!(function.why.as_deref(), Some("argument `by` changed 4 times: pass a tensor"));
//! println!("{report}");
//! ```
//!
//! Calls are always counted. Times are measured after the first [`start`] or [`of`].

use crate::events::{self, Counts};
use crate::function::{Reason, Summary};
use crate::{function, recycle};
use gradloom_kernels::memory::pool;
use std::fmt;
use std::time::Duration;

/// Returns a report of the calls of traced functions, on all threads, since the process began.
///
/// See the [module](self).
pub fn report() -> Report {
    Report::new(function::summaries(), events::counts())
}

/// Starts to measure the time of calls.
pub fn start() {
    function::measure();
}

/// Runs `body` and returns its result with a report of the calls on all threads during the run.
///
/// ```
/// use gradloom::prelude::*;
///
/// #[traced]
/// fn double(x: &Tensor) -> Tensor {
///     x * 2.0
/// }
///
/// let x = Tensor::from([1.0f32, 2.0]);
/// let (_, report) = gradloom::report::of(|| [double(&x), double(&x), double(&x)]);
/// let function = &report.functions()[0];
/// assert_eq!((function.found, function.planned, function.recorded), (2, 1, 0));
/// ```
pub fn of<R>(body: impl FnOnce() -> R) -> (R, Report) {
    start();
    let before = report();
    let result = body();
    (result, report().since(&before))
}

/// Returns the memory of the elements of all tensors of the process.
///
/// Small buffers that other threads keep for reuse count as live: up to 4 MiB for each thread that computes.
///
/// ```
/// use gradloom::{Tensor, report};
///
/// let before = report::memory();
/// let x = Tensor::from(vec![1.0f32; 1 << 20]);
/// let during = report::memory();
/// assert_eq!(during.live_bytes - before.live_bytes, 4 << 20);
/// drop(x);
/// assert_eq!(report::memory().live_bytes, before.live_bytes);
/// ```
pub fn memory() -> Memory {
    let ([bytes, buffers], [free, n_free]) = (pool::living(), recycle::free_buffers());
    // Other threads may compute meanwhile.
    Memory {
        live_bytes: bytes.saturating_sub(free),
        live_buffers: buffers.saturating_sub(n_free),
        free_bytes: free + pool::pooled(),
    }
}

/// Memory of elements. Arenas and scratch memory of plans, which are reused, are not included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// Size in bytes of the buffers that tensors, residuals, results of calls and constants of plans hold. A buffer
    /// may be larger than its elements. Elements in a [mapped file](crate::Tensor::try_from_bytes) are not included.
    pub live_bytes: usize,
    /// Number of these buffers. Buffers without elements do not count.
    pub live_buffers: usize,
    /// Size in bytes of the buffers that are kept for later results. [`release_memory`](crate::release_memory) frees
    /// the large ones.
    pub free_bytes: usize,
}

/// Calls of traced functions. `Display` prints a table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    functions: Vec<FunctionReport>,
    events: Counts,
}

/// Calls of one function or companion.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FunctionReport {
    /// Path, as in `model::loss::value_and_grad`.
    ///
    /// All instances of a generic function share one entry.
    pub name: &'static str,
    /// Time spent to run its plans, and to record and plan its body, callees included.
    ///
    /// Results that are not requested take no time.
    pub time: Duration,
    /// Number of calls that found their plan.
    pub found: u64,
    /// Number of calls that recorded the body and made a plan for later calls.
    pub planned: u64,
    /// Number of calls that recorded the body and made no plan.
    ///
    /// The next such call records it again.
    pub recorded: u64,
    /// Reason why a call last recorded the body.
    pub why: Option<Reason>,
}

impl FunctionReport {
    /// Returns the number of calls.
    pub fn calls(&self) -> u64 {
        self.found + self.planned + self.recorded
    }

    fn since(&self, before: Option<&FunctionReport>) -> FunctionReport {
        let Some(before) = before else {
            return self.clone();
        };
        let planned = self.planned - before.planned;
        let recorded = self.recorded - before.recorded;
        FunctionReport {
            name: self.name,
            time: self.time.saturating_sub(before.time),
            found: self.found - before.found,
            planned,
            recorded,
            why: self.why.clone().filter(|_| planned + recorded > 0),
        }
    }
}

impl From<Summary> for FunctionReport {
    fn from(summary: Summary) -> FunctionReport {
        let Summary { name, totals, why } = summary;
        FunctionReport {
            name,
            time: Duration::from_nanos(totals.nanos),
            found: totals.found,
            planned: totals.planned,
            recorded: totals.recorded,
            why,
        }
    }
}

impl Report {
    fn new(functions: Vec<Summary>, events: Counts) -> Report {
        let functions = functions.into_iter().map(FunctionReport::from).collect();
        Report::sorted(functions, events)
    }

    fn sorted(mut functions: Vec<FunctionReport>, events: Counts) -> Report {
        functions.retain(|function| function.calls() > 0);
        functions.sort_by_key(|f| (f.time, f.calls()));
        functions.reverse();
        Report { functions, events }
    }

    /// Returns the functions that were called, the slowest first.
    pub fn functions(&self) -> &[FunctionReport] {
        &self.functions
    }

    /// Returns the number of events, including those outside of traced functions.
    pub fn events(&self) -> Counts {
        self.events
    }

    fn since(&self, before: &Report) -> Report {
        let functions = self.functions.iter().map(|function| {
            let same = |other: &&FunctionReport| other.name == function.name;
            function.since(before.functions.iter().find(same))
        });
        Report::sorted(functions.collect(), self.events - before.events)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [
            "function", "time", "calls", "found", "planned", "recorded", "why",
        ];
        let rows = self.functions.iter().map(|function| {
            let why = function.why.as_deref().unwrap_or_default();
            [
                function.name.to_owned(),
                format!("{:.1} ms", function.time.as_secs_f64() * 1e3),
                function.calls().to_string(),
                function.found.to_string(),
                function.planned.to_string(),
                function.recorded.to_string(),
                why.to_owned(),
            ]
        });
        let rows: Vec<[String; 7]> = std::iter::once(head.map(str::to_owned))
            .chain(rows)
            .collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths: [usize; 7] = std::array::from_fn(|column| width(column).unwrap_or(0));
        for row in &rows {
            let [name, time, calls, found, planned, recorded, why] = row;
            let [w0, w1, w2, w3, w4, w5, _] = widths;
            let line = format!(
                "{name:w0$}  {time:>w1$}  {calls:>w2$}  {found:>w3$}  {planned:>w4$}  {recorded:>w5$}  {why}"
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        let Counts {
            planned, hit, ran, ..
        } = self.events;
        write!(
            f,
            "plans, including those of closures and single operations: {planned} made, {hit} found, {ran} run"
        )
    }
}
