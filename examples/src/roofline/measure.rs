//! Timing of a planned program.

use gradloom::trace::ProgramPlan;
use gradloom::{Result, Tensor};
use std::time::Instant;

/// Number of samples of a computation that is not slow.
const SAMPLES: usize = 5;

/// Seconds from which a computation is timed once, after one that makes the buffers.
const SLOW: f64 = 0.02;

/// Returns the least time of a call in seconds, over `samples` calls.
pub(super) fn best_seconds(samples: usize, mut call: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        call();
        start.elapsed().as_secs_f64()
    };
    (0..samples).map(time).fold(f64::INFINITY, f64::min)
}

/// Returns the least time of a run in seconds, over samples that last at least `min_time` seconds together.
///
/// The time includes the call of the plan: its checks, and the buffers of its results. It includes neither recording
/// nor planning.
///
/// # Errors
///
/// If a run fails, for example because a matrix is singular.
pub(super) fn seconds_of_run(plan: &ProgramPlan, args: &[Tensor], min_time: f64) -> Result<f64> {
    let timed = |runs: usize| -> Result<f64> {
        let start = Instant::now();
        for _ in 0..runs {
            plan.run(args)?;
        }
        Ok(start.elapsed().as_secs_f64() / runs as f64)
    };
    let first = timed(1)?;
    let second = timed(1)?;
    if second > SLOW {
        return Ok(first.min(second));
    }
    let sample = min_time / SAMPLES as f64;
    let warm = timed(((sample / 4.0 / second) as usize).clamp(1, 10_000))?;
    let runs = ((sample / warm) as usize).clamp(1, 1_000_000);
    let mut best = second.min(warm);
    for _ in 0..SAMPLES {
        best = best.min(timed(runs)?);
    }
    Ok(best)
}
