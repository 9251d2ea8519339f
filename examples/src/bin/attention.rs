//! Compares fused attention with attention built from a matrix product, a softmax and another
//! product: causal for several sequence lengths, and masked for a batch of padded sequences.
//!
//! `cargo run --release -p gradloom-examples --bin attention [-- THREADS]`

use cpu_time::ProcessTime;
use gradloom::Result;
use gradloom::prelude::*;
use gradloom_examples::memory::mebibytes;
use std::time::Instant;

const HEADS: usize = 4;
const FEATURES: usize = 64;

#[traced]
fn fused(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    q.causal_attention(k, v)
}

#[traced]
fn by_parts(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    let scale = 1.0 / (q.dim(2) as f64).sqrt();
    let scores = q.matmul(k.swap_axes(1, 2)) * scale;
    let position = Tensor::arange(q.dim(1), DType::I64);
    let sees = position.unsqueeze(1).ge(&position);
    let weights = sees.select(&scores, -1e9).softmax(-1);
    weights.matmul(v)
}

#[traced]
fn fused_loss(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    fused(q, k, v).square().sum(..)
}

#[traced]
fn loss_by_parts(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    by_parts(q, k, v).square().sum(..)
}

#[traced]
fn padded(q: &Tensor, k: &Tensor, v: &Tensor, #[nodiff] mask: &Tensor) -> Tensor {
    q.masked_attention(k, v, mask)
}

#[traced]
fn padded_by_parts(q: &Tensor, k: &Tensor, v: &Tensor, #[nodiff] mask: &Tensor) -> Tensor {
    let scale = 1.0 / (q.dim(3) as f64).sqrt();
    let scores = q.matmul(k.swap_axes(2, 3)) * scale;
    let weights = mask.select(&scores, -1e9).softmax(-1);
    weights.matmul(v)
}

#[traced]
fn padded_loss(q: &Tensor, k: &Tensor, v: &Tensor, #[nodiff] mask: &Tensor) -> Tensor {
    padded(q, k, v, mask).square().sum(..)
}

#[traced]
fn padded_loss_by_parts(q: &Tensor, k: &Tensor, v: &Tensor, #[nodiff] mask: &Tensor) -> Tensor {
    padded_by_parts(q, k, v, mask).square().sum(..)
}

fn main() -> Result<()> {
    let threads = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let threads: usize = threads.unwrap_or(1);
    gradloom::set_threads(threads);
    println!(
        "{HEADS} heads of {FEATURES} features, f32, {threads} threads: best of several, in ms"
    );
    under_a_mask()?;
    println!("length   forward  by parts  ratio  gradient  by parts  ratio");
    for len in [128, 256, 512, 1024, 2048] {
        let [q, k, v] = [1, 2, 3].map(|seed| numbers(seed, [1, HEADS, len, FEATURES]).squeeze(0));
        let values = [
            best(|| evaluate(&fused(&q, &k, &v)))?,
            best(|| evaluate(&by_parts(&q, &k, &v)))?,
        ];
        let gradients = [
            best(|| {
                let (_, grads) = fused_loss::value_and_grad(&q, &k, &v);
                evaluate(&(grads.q, grads.k, grads.v))
            })?,
            best(|| {
                let (_, grads) = loss_by_parts::value_and_grad(&q, &k, &v);
                evaluate(&(grads.q, grads.k, grads.v))
            })?,
        ];
        let columns = |[ours, other]: [f64; 2]| {
            format!(
                "{:9.3} {:9.3} {:6.2}",
                ours * 1e3,
                other * 1e3,
                other / ours
            )
        };
        println!("{len:6} {} {}", columns(values), columns(gradients));
    }
    Ok(())
}

/// Times a padded batch of sequences with 16 to 128 queries and keys. The variant with the smaller
/// memory peak runs first, because the peak of a process never shrinks.
fn under_a_mask() -> Result<()> {
    let (batch, len) = (8, 128);
    let [q, k, v] = [1, 2, 3].map(|seed| numbers(seed, [batch, HEADS, len, FEATURES]));
    let lens = (Tensor::arange(batch, DType::I64) + 1) * (len / batch) as i64;
    let mask = Tensor::arange(len, DType::I64).lt(lens.reshape([batch, 1, 1, 1]));
    evaluate(&mask)?;
    println!("{batch} sequences filled up to {len}   forward  gradient  peak memory, MiB");
    let start = mebibytes("VmHWM:");
    let row = |name: &str, forward: f64, gradient: f64| {
        let peak = mebibytes("VmHWM:")
            .zip(start)
            .map(|(peak, start)| peak - start);
        let peak = peak.map_or("?".to_owned(), |peak| format!("+{peak:.1}"));
        let [forward, gradient] = [forward, gradient].map(|seconds| seconds * 1e3);
        println!("{name:29} {forward:9.3} {gradient:9.3}  {peak}");
    };
    let forward = best(|| evaluate(&padded(&q, &k, &v, &mask)))?;
    let gradient = best(|| {
        let (_, grads) = padded_loss::value_and_grad(&q, &k, &v, &mask);
        evaluate(&(grads.q, grads.k, grads.v))
    })?;
    row("masked_attention", forward, gradient);
    let forward = best(|| evaluate(&padded_by_parts(&q, &k, &v, &mask)))?;
    let gradient = best(|| {
        let (_, grads) = padded_loss_by_parts::value_and_grad(&q, &k, &v, &mask);
        evaluate(&(grads.q, grads.k, grads.v))
    })?;
    row("by parts", forward, gradient);
    Ok(())
}

/// Returns the best time of several calls in seconds: wall-clock time, or CPU time if that is less
/// and there is only one thread.
fn best(mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    call()?;
    let one = gradloom::threads() == 1;
    let start = Instant::now();
    let (mut best, mut n) = (f64::INFINITY, 0);
    while n < 5 || (start.elapsed().as_secs_f64() < 0.5 && n < 200) {
        let (clock, cpu) = (Instant::now(), ProcessTime::now());
        call()?;
        let time = clock.elapsed().as_secs_f64();
        let cpu = if one {
            cpu.elapsed().as_secs_f64()
        } else {
            time
        };
        best = best.min(time).min(cpu);
        n += 1;
    }
    Ok(best)
}

fn numbers(seed: u32, shape: [usize; 4]) -> Tensor {
    let mut seed = seed;
    let mut draw = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (f64::from(seed >> 8) / f64::from(1 << 23) - 1.0) as f32
    };
    let data: Vec<f32> = (0..shape.iter().product::<usize>())
        .map(|_| draw())
        .collect();
    Tensor::from_vec(data, shape)
}
