//! Timing of workloads, and the rows that report it.
//!
//! A *sample* is a batch of calls that lasts about 10 ms. The value of a row is the median of its
//! samples.

use super::{Loops, Options};
use crate::memory::mebibytes;
use cpu_time::ProcessTime;
use gradloom::{Result, Tensor, Tree, evaluate};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// One row of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the workload, or of a part of it.
    pub workload: String,
    /// Number of threads.
    pub threads: usize,
    /// Median of the samples.
    pub value: f64,
    /// Best sample: the smallest time or the highest rate.
    pub best: f64,
    /// Best sample measured in CPU time, summed over all threads.
    pub cpu: Option<f64>,
    /// Unit of the values: `us`, `ms`, `ns`, `GFLOP/s` or `MiB`.
    pub unit: String,
    /// Number of calls timed.
    pub n: usize,
    /// A number computed from the result. All frameworks have to agree on it.
    pub check: Option<f64>,
}

/// Unit in which a duration is reported.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    Millis,
    Micros,
    /// Nanoseconds for one of `n` equal parts of a call.
    NanosOf(usize),
    /// Rate for a call that takes this number of floating-point operations.
    Gflops(f64),
}

/// Times calls as the options say, and emits the rows.
pub(super) struct Timer<'a> {
    pub(super) options: Options,
    pub(super) emit: &'a mut dyn FnMut(Row),
}

impl Timer<'_> {
    /// Times repeated calls.
    pub(super) fn time(
        &mut self,
        workload: &str,
        unit: Unit,
        check: f64,
        call: impl FnMut() -> Result<()> + Send,
    ) -> Result<()> {
        if self.options.memory {
            return self.memory(workload, check, call);
        }
        let stats = repeat(self.options.min_time, call)?;
        self.emit(workload, unit, Some(check), stats);
        Ok(())
    }

    /// Measures how much memory a call takes beside its arguments: its results and what it computes on the way.
    ///
    /// The calls run in threads of their own, whose end frees what threads keep for the next call.
    fn memory(
        &mut self,
        workload: &str,
        check: f64,
        mut call: impl FnMut() -> Result<()> + Send,
    ) -> Result<()> {
        in_a_thread(|| (0..2).try_for_each(|_| call()))?;
        gradloom::release_memory();
        let Some(before) = reset_peak() else {
            return Ok(());
        };
        in_a_thread(|| (0..3).try_for_each(|_| call()))?;
        if let Some(peak) = mebibytes("VmHWM:") {
            self.emit_mebibytes(workload, peak - before, Some(check));
        }
        Ok(())
    }

    /// Times an operation beside a plain loop with the same result, whose row has the suffix `_loop`.
    ///
    /// The two take turns, so that both see the same load of the machine. With [`Loops::Left`], the
    /// loop only gives the result to compare with.
    ///
    /// # Panics
    ///
    /// If the results differ.
    pub(super) fn beside(
        &mut self,
        workload: &str,
        call: impl Fn() -> Tensor + Sync,
        mut plain: impl FnMut(&mut [f32]),
    ) -> Result<()> {
        let found = call();
        let found = found.to_vec::<f32>();
        let mut out = vec![0.0f32; found.len()];
        plain(&mut out);
        for (i, (x, y)) in found.iter().zip(&out).enumerate() {
            let near = (x - y).abs() <= 1e-3 * (1.0 + y.abs());
            assert!(near, "{workload}: {x} and {y} at {i} of {}", out.len());
        }
        let check = |all: &[f32]| all.iter().map(|x| f64::from(x.abs())).sum();
        let checks: [f64; 2] = [check(&found), check(&out)];
        if self.options.loops == Loops::Left || self.options.memory {
            drop((found, out));
            return self.time(workload, Unit::Millis, checks[0], || evaluate(&call()));
        }
        let mut calls: [Call<'_>; 2] = [
            Box::new(|| evaluate(&call())),
            Box::new(|| {
                plain(std::hint::black_box(&mut out));
                Ok(())
            }),
        ];
        let stats = in_turn(self.options.min_time, &mut calls)?;
        for ((stats, check), suffix) in stats.into_iter().zip(checks).zip(["", "_loop"]) {
            let workload = format!("{workload}{suffix}");
            self.emit(&workload, Unit::Millis, Some(check), stats);
        }
        Ok(())
    }

    /// Times a single call, the first one. Its memory is not measured.
    pub(super) fn time_first(
        &mut self,
        workload: &str,
        call: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if self.options.memory {
            return Ok(());
        }
        let stats = Stats::of(vec![sample(1, call)?], 1);
        self.emit(workload, Unit::Millis, None, stats);
        Ok(())
    }

    /// Reports the peak memory of the process so far, on systems that provide it.
    pub(super) fn peak_memory(&mut self, workload: &str) {
        if let Some(peak) = mebibytes("VmHWM:") {
            self.emit_mebibytes(workload, peak, None);
        }
    }

    fn emit_mebibytes(&mut self, workload: &str, value: f64, check: Option<f64>) {
        (self.emit)(Row {
            workload: workload.to_owned(),
            threads: self.options.threads,
            value,
            best: value,
            cpu: None,
            unit: "MiB".to_owned(),
            n: 1,
            check,
        });
    }

    fn emit(&mut self, workload: &str, unit: Unit, check: Option<f64>, stats: Stats) {
        let scaled = |seconds: f64| match unit {
            Unit::Millis => seconds * 1e3,
            Unit::Micros => seconds * 1e6,
            Unit::NanosOf(parts) => seconds * 1e9 / parts as f64,
            Unit::Gflops(flops) => flops * 1e-9 / seconds,
        };
        let unit = match unit {
            Unit::Millis => "ms",
            Unit::Micros => "us",
            Unit::NanosOf(_) => "ns",
            Unit::Gflops(_) => "GFLOP/s",
        };
        (self.emit)(Row {
            workload: workload.to_owned(),
            threads: self.options.threads,
            value: scaled(stats.median),
            best: scaled(stats.best),
            cpu: Some(scaled(stats.cpu)),
            unit: unit.to_owned(),
            n: stats.n,
            check,
        });
    }
}

/// Runs the empty workload, whose peak memory is that of a process that has just started.
pub(super) fn start(timer: &mut Timer) -> Result<()> {
    timer.peak_memory("RSS_start");
    Ok(())
}

/// Returns the Euclidean norm of all numbers of a tree.
pub(super) fn norm(tree: &impl Tree) -> f64 {
    let mut squares = 0.0;
    tree.visit(&mut |leaf| squares += sum(leaf, |x| x * x));
    squares.sqrt()
}

/// Returns the sum of `f` over all elements.
pub(super) fn sum(x: &Tensor, f: impl Fn(f64) -> f64) -> f64 {
    x.to_vec::<f32>().into_iter().map(|x| f(x.into())).sum()
}

/// Statistics of the samples, in seconds per call.
struct Stats {
    median: f64,
    best: f64,
    cpu: f64,
    n: usize,
}

/// Seconds per call: wall-clock time and CPU time.
type Sample = (f64, f64);

impl Stats {
    fn of(samples: Vec<Sample>, batch: usize) -> Stats {
        let sorted = |of: fn(&Sample) -> f64| {
            let mut seconds: Vec<f64> = samples.iter().map(of).collect();
            seconds.sort_by(f64::total_cmp);
            seconds
        };
        let (wall, cpu) = (sorted(|s| s.0), sorted(|s| s.1));
        let n = wall.len();
        Stats {
            median: (wall[(n - 1) / 2] + wall[n / 2]) / 2.0,
            best: wall[0],
            cpu: cpu[0],
            n: n * batch,
        }
    }
}

/// Warms up, chooses the batch size, and takes at least five samples for at least `min_time`
/// seconds.
fn repeat(min_time: f64, mut call: impl FnMut() -> Result<()>) -> Result<Stats> {
    if min_time == 0.0 {
        return Ok(Stats::of(vec![sample(1, call)?], 1));
    }
    call()?;
    let (one, _) = sample(1, &mut call)?;
    let batch = ((0.010 / one).ceil() as usize).clamp(1, 200_000);
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < 0.1 * min_time {
        call()?;
    }
    let start = Instant::now();
    let mut samples = Vec::new();
    while samples.len() < 5 || start.elapsed().as_secs_f64() < min_time {
        samples.push(sample(batch, || (0..batch).try_for_each(|_| call()))?);
        if start.elapsed().as_secs_f64() > 20.0 * min_time + 5.0 {
            break;
        }
    }
    Ok(Stats::of(samples, batch))
}

/// A computation to time.
type Call<'a> = Box<dyn FnMut() -> Result<()> + 'a>;

/// Warms up, and takes at least 15 short samples of each call in turn for at least `min_time` seconds.
fn in_turn(min_time: f64, calls: &mut [Call<'_>; 2]) -> Result<Vec<Stats>> {
    let mut batches = [1; 2];
    if min_time > 0.0 {
        for (call, batch) in calls.iter_mut().zip(&mut batches) {
            call()?;
            let (one, _) = sample(1, &mut *call)?;
            *batch = ((0.002 / one).ceil() as usize).clamp(1, 200_000);
        }
    }
    let start = Instant::now();
    let mut samples = [Vec::new(), Vec::new()];
    while samples[0].is_empty()
        || min_time > 0.0 && (samples[0].len() < 15 || start.elapsed().as_secs_f64() < min_time)
    {
        for ((call, batch), samples) in calls.iter_mut().zip(batches).zip(&mut samples) {
            samples.push(sample(batch, || (0..batch).try_for_each(|_| call()))?);
        }
    }
    let stats = samples.into_iter().zip(batches);
    Ok(stats
        .map(|(samples, batch)| Stats::of(samples, batch))
        .collect())
}

/// Times one batch of calls.
fn sample(batch: usize, calls: impl FnOnce() -> Result<()>) -> Result<Sample> {
    let (wall, cpu) = (Instant::now(), ProcessTime::now());
    calls()?;
    let (cpu, wall) = (cpu.elapsed(), wall.elapsed());
    let each = batch as f64;
    Ok((wall.as_secs_f64() / each, cpu.as_secs_f64() / each))
}

/// Calls `f` in a new thread.
fn in_a_thread<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    let result = std::thread::scope(|scope| scope.spawn(f).join());
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Makes the memory that the process has now its peak, on Linux, and returns it in MiB.
fn reset_peak() -> Option<f64> {
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    mebibytes("VmRSS:")
}
