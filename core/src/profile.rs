//! Profiles: when each kernel ran, on which thread, and how fast.

use gradloom_kernels::timeline::{Slice, SliceKind, Timeline};
use std::collections::HashMap;
use std::fmt::{self, Write};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Runs `body` and returns its result, with the time of each kernel that ran meanwhile, on all threads.
///
/// Results that nobody asks for take no time: read them, or [`evaluate`](crate::evaluate()) them, in `body`.
/// Nothing is measured while no profile is taken.
///
/// ```
/// use gradloom::{DType, Tensor, evaluate, profile};
///
/// let x = Tensor::ones([64, 64], DType::F32);
/// let (result, profile) = profile(|| evaluate(&x.matmul(&x).tanh()));
/// result?;
/// assert!(profile.kernels().iter().any(|kernel| kernel.name.contains("matmul")));
/// println!("{profile}"); // the ten slowest kernels
/// let json = profile.chrome_trace(); // for chrome://tracing or ui.perfetto.dev
/// assert!(json.starts_with("{\"traceEvents\":["));
/// # Ok::<(), gradloom::Error>(())
/// ```
pub fn profile<R>(body: impl FnOnce() -> R) -> (R, Profile) {
    let timeline = Timeline::new();
    let start = Instant::now();
    let result = body();
    let elapsed = start.elapsed();
    let slices = timeline.slices();
    (
        result,
        Profile {
            start,
            elapsed,
            slices,
        },
    )
}

/// What ran during a [`profile`](profile()). Prints a table of the ten slowest kernels.
#[derive(Clone, Debug)]
pub struct Profile {
    start: Instant,
    elapsed: Duration,
    slices: Vec<Slice>,
}

/// All runs of the kernels of one name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KernelTime {
    /// Ops of the kernel, as [`explain`](crate::explain) prints them.
    pub name: String,
    /// Number of runs.
    pub runs: usize,
    /// Total time.
    pub time: Duration,
    /// Bytes of operands and results, in total.
    pub bytes: u64,
    /// Arithmetic operations in total, if they are known.
    pub flops: Option<u64>,
}

impl KernelTime {
    /// Returns the speed in 10^9 bytes per second: operands and results, each counted once.
    pub fn gb_per_second(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64() / 1e9
    }

    /// Returns the speed in 10^9 arithmetic operations per second, if their number is known.
    pub fn gflops(&self) -> Option<f64> {
        Some(self.flops? as f64 / self.time.as_secs_f64() / 1e9)
    }
}

impl Profile {
    /// Returns the time from the beginning to the end.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Returns the kernels that ran, the slowest first.
    pub fn kernels(&self) -> Vec<KernelTime> {
        let mut at: HashMap<&str, usize> = HashMap::new();
        let mut kernels: Vec<KernelTime> = Vec::new();
        for slice in &self.slices {
            let SliceKind::Task { bytes, flops, .. } = slice.kind else {
                continue;
            };
            let i = *at.entry(&slice.label).or_insert_with(|| {
                kernels.push(KernelTime {
                    name: slice.label.to_string(),
                    runs: 0,
                    time: Duration::ZERO,
                    bytes: 0,
                    flops: Some(0),
                });
                kernels.len() - 1
            });
            let kernel = &mut kernels[i];
            kernel.runs += 1;
            kernel.time += slice.end - slice.start;
            kernel.bytes += bytes as u64;
            kernel.flops = kernel.flops.zip(flops).map(|(all, more)| all + more);
        }
        kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.time));
        kernels
    }

    /// Returns the time that kernels took, and that the making of plans took, on all calling threads.
    fn totals(&self) -> [Duration; 2] {
        let total = |is: fn(&SliceKind) -> bool| {
            let slices = self.slices.iter().filter(|slice| is(&slice.kind));
            slices.map(|slice| slice.end - slice.start).sum()
        };
        [
            total(|kind| matches!(kind, SliceKind::Task { .. })),
            total(|kind| matches!(kind, SliceKind::Planning { .. })),
        ]
    }

    /// Returns the timeline in the JSON format of Chrome's tracing, which Perfetto reads, too.
    ///
    /// Each thread is a row. A kernel has its bytes, its arithmetic and its plan as arguments, and the parts that
    /// threads computed of it below it. Source of the format: "Trace Event Format", Google, complete events
    /// (`"ph":"X"`) in microseconds.
    pub fn chrome_trace(&self) -> String {
        let mut json = "{\"traceEvents\":[".to_owned();
        let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
        for (i, slice) in self.slices.iter().enumerate() {
            let separator = if i == 0 { "\n" } else { ",\n" };
            let length = slice.end - slice.start;
            let begin = slice.start.saturating_duration_since(self.start);
            let (category, args) = match slice.kind {
                SliceKind::Task { plan, bytes, flops } => {
                    let mut args = format!("\"plan\":{plan},\"bytes\":{bytes}");
                    let rate = |n: f64| n / length.as_secs_f64().max(1e-9) / 1e9;
                    let _ = write!(args, ",\"GB/s\":{:.3}", rate(bytes as f64));
                    if let Some(flops) = flops {
                        let _ = write!(
                            args,
                            ",\"flops\":{flops},\"GFLOP/s\":{:.3}",
                            rate(flops as f64)
                        );
                    }
                    ("kernel", args)
                }
                SliceKind::Part => ("part", String::new()),
                SliceKind::Planning { equations } => ("plan", format!("\"equations\":{equations}")),
            };
            let _ = write!(
                json,
                "{separator}{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.3},\"dur\":{:.3},\"cat\":\"{category}\",\"name\":\"{}\",\"args\":{{{args}}}}}",
                slice.thread,
                micros(begin),
                micros(length),
                escaped(&slice.label),
            );
        }
        json.push_str("\n],\"displayTimeUnit\":\"ns\"}\n");
        json
    }

    /// Writes the [timeline](Self::chrome_trace) to a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write_chrome_trace(&self, path: impl AsRef<Path>) -> io::Result<()> {
        std::fs::write(path, self.chrome_trace())
    }
}

/// Returns the text between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '"' | '\\' => escaped.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(escaped, "\\u{:04x}", c as u32);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// Number of kernels in the table.
const SLOWEST: usize = 10;

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let [kernels, plans] = self.totals();
        writeln!(
            f,
            "{:.3} ms in total, {:.3} ms in kernels, {:.3} ms to make plans",
            millis(self.elapsed),
            millis(kernels),
            millis(plans)
        )?;
        writeln!(f, "      ms   share   runs    GB/s  GFLOP/s  kernel")?;
        let all = self.kernels();
        for kernel in all.iter().take(SLOWEST) {
            let gflops = kernel
                .gflops()
                .map_or("-".to_owned(), |n| format!("{n:.2}"));
            writeln!(
                f,
                "{:8.3}  {:5.1}%  {:5}  {:6.2}  {gflops:>7}  {}",
                millis(kernel.time),
                100.0 * kernel.time.as_secs_f64() / kernels.as_secs_f64().max(1e-12),
                kernel.runs,
                kernel.gb_per_second(),
                kernel.name
            )?;
        }
        match all.len().saturating_sub(SLOWEST) {
            0 => Ok(()),
            more => writeln!(f, "and {more} more kernels"),
        }
    }
}
