//! Times candle in the rows W11, W17 and W18, as `../rows.py` does it for other peers.
//!
//! ```sh
//! RUSTFLAGS="-C target-cpu=native" RAYON_NUM_THREADS=1 cargo run --release -- [ROWS] [--min-time 0.3]
//! ```
//!
//! `ROWS` are prefixes of names, separated by commas. Each row prints `row,candle,milliseconds`, and a comment line
//! with the sum of absolute values of the results, which is that of the other frameworks.

mod bert;
mod convnet;
mod gpt;
mod inputs;

use candle_core::{Result, Tensor};
use std::time::{Duration, Instant};

/// A row: its name, and what makes the call that is timed.
type Row = (&'static str, fn() -> Result<Call>);

/// A call, and its results.
pub type Call = Box<dyn FnMut() -> Result<Vec<Tensor>>>;

const ROWS: [Row; 6] = [
    ("W11", convnet::step),
    ("W11_scores", convnet::class_scores),
    ("W17_sentence", bert::sentence),
    ("W17_batch", bert::batch),
    ("W18_decode", gpt::decode),
    ("W18_gradient", gpt::gradient),
];

fn main() -> Result<()> {
    let mut min_time = 0.3;
    let mut rows = String::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--min-time" => {
                let seconds = args.next().and_then(|x| x.parse().ok());
                min_time = seconds.expect("`--min-time` is a number of seconds");
            }
            _ => rows = arg,
        }
    }
    for (name, prepare) in ROWS {
        if rows.split(',').any(|prefix| name.starts_with(prefix)) {
            let mut call = prepare()?;
            let mut check = 0.0;
            for x in call()? {
                let x = x.flatten_all()?.to_vec1::<f32>()?;
                check += x.iter().map(|x| f64::from(x.abs())).sum::<f64>();
            }
            println!("# check,{name},candle,{check:.9}");
            println!("{name},candle,{:.4}", milliseconds(min_time, &mut call)?);
        }
    }
    Ok(())
}

/// Returns the median of batches of about 10 ms: at least five, for at least `min_time` seconds.
fn milliseconds(min_time: f64, call: &mut Call) -> Result<f64> {
    let mut sample = |batch: usize| -> Result<f64> {
        let start = Instant::now();
        for _ in 0..batch {
            call()?;
        }
        Ok(start.elapsed().as_secs_f64() / batch as f64)
    };
    let one = sample(1)?;
    let batch = ((0.010 / one).ceil() as usize).clamp(1, 200_000);
    let start = Instant::now();
    let mut samples = Vec::new();
    while samples.len() < 5 || start.elapsed() < Duration::from_secs_f64(min_time) {
        samples.push(sample(batch)?);
    }
    samples.sort_by(f64::total_cmp);
    Ok(1e3 * samples[samples.len() / 2])
}
