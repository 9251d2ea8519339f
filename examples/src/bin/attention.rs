//! Causal attention beside the same from a matrix product, a softmax and another product, by the length of a sequence.
//!
//! `cargo run --release -p gradloom-examples --bin attention [-- THREADS]`

use cpu_time::ProcessTime;
use gradloom::Result;
use gradloom::prelude::*;
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

fn main() -> Result<()> {
    let threads = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let threads: usize = threads.unwrap_or(1);
    gradloom::set_threads(threads);
    println!(
        "{HEADS} heads of {FEATURES} features, f32, {threads} threads: best of several, in ms"
    );
    println!("length   forward  by parts  ratio  gradient  by parts  ratio");
    for len in [128, 256, 512, 1024, 2048] {
        let [q, k, v] = [1, 2, 3].map(|seed| numbers(seed, len));
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

/// The seconds that a call takes: of each of several the lesser of the time by the clock and, with one thread, by the CPU.
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

fn numbers(seed: u32, len: usize) -> Tensor {
    let mut seed = seed;
    let mut draw = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (f64::from(seed >> 8) / f64::from(1 << 23) - 1.0) as f32
    };
    let data: Vec<f32> = (0..HEADS * len * FEATURES).map(|_| draw()).collect();
    Tensor::from_vec(data, [HEADS, len, FEATURES])
}
