//! Cost of tracing to disk: the speed of a digest on one core, and the time of a call while nothing
//! is traced. `docs/perf-log.md` has the results.

use gradloom::Tensor;
use gradloom::dump::{digest, digest_f32, dump_trace};
use std::hint::black_box;
use std::time::Instant;

/// Returns the least of several times, in seconds.
fn seconds(mut f: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64()
    };
    (0..9).map(time).fold(f64::INFINITY, f64::min)
}

fn main() {
    for n in [1 << 14, 1 << 20, 1 << 24] {
        let x: Vec<f32> = (0..n).map(|i| (i % 1000) as f32).collect();
        let wide: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let of_f32 = seconds(|| drop(black_box(digest_f32(black_box(&x)))));
        let of_f64 = seconds(|| {
            let fill = |start, out: &mut [f32]| {
                for (y, x) in out.iter_mut().zip(&wide[start..]) {
                    *y = *x as f32;
                }
            };
            drop(black_box(digest(n, fill)));
        });
        let speed = |bytes: usize, seconds| bytes as f64 / seconds / 1e9;
        println!(
            "{n:9} elements: {:.2} GB/s of f32, {:.2} GB/s of f64",
            speed(4 * n, of_f32),
            speed(8 * n, of_f64)
        );
    }
    let x = Tensor::from([1.0f32, 2.0]);
    dump_trace("x", &x).expect("nothing is traced");
    let calls = 10_000_000;
    let time = seconds(|| {
        for _ in 0..calls {
            dump_trace(black_box("x"), black_box(&x)).expect("nothing is traced");
        }
    });
    println!(
        "a call while nothing is traced: {:.2} ns",
        time / f64::from(calls) * 1e9
    );
}
