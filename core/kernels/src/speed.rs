//! Prints the speed of the kernels on rows: `cargo test --release -p gradloom --lib kernel::speed
//! -- --nocapture`.

use crate::memory::data::Data;
use crate::memory::element::Element;
use crate::random::fill;
use crate::random::fill::{Draw, Flips, Normal, Uniform};
use crate::reduce;
use crate::reduce::{Max, Sum};
use crate::rows::{forward, jacobians, norm};
use crate::simd::number::Float;
use std::hint::black_box;
use std::time::Instant;

const ROWS: usize = 4096;
const COLS: usize = 1024;
const N: usize = ROWS * COLS;

/// A kernel with its operands.
type BoundKernel<'a> = Box<dyn FnMut() + 'a>;

/// Returns `n` zeros, aligned to a cache line as buffers are. The memory is leaked.
fn scratch<T: Element>(n: usize) -> &'static mut [T] {
    let scratch = vec![T::default(); n + 64].leak();
    let skipped = scratch.as_ptr().align_offset(64);
    &mut scratch[skipped..][..n]
}

fn numbers<T: Float>(n: usize, seed: u32) -> &'static [T] {
    let mut seed = seed;
    let mut draw = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(seed >> 8) / f64::from(1 << 22) - 2.0
    };
    let xs = scratch(n);
    xs.fill_with(|| T::of(draw()));
    xs
}

/// Runs all kernels in turn, several times, and prints the median time and throughput of each.
fn time(dtype: &str, mut kernels: Vec<(&str, usize, BoundKernel)>) {
    let mut times = vec![Vec::new(); kernels.len()];
    for _ in 0..31 {
        for (times, (_, _, run)) in times.iter_mut().zip(&mut kernels) {
            run();
            let start = Instant::now();
            run();
            times.push(start.elapsed().as_secs_f64());
        }
    }
    for (times, (name, bytes, _)) in times.iter_mut().zip(&kernels) {
        times.sort_by(f64::total_cmp);
        let (best, median) = (times[0], times[times.len() / 2]);
        let rate = *bytes as f64 / median / 1e9;
        println!(
            "{dtype} {name:<20} {:7.3} ms (least {:6.3}) {rate:6.1} GB/s",
            median * 1e3,
            best * 1e3
        );
    }
}

const WAY: forward::RowMode = forward::RowMode {
    non_temporal: true,
    fence: true,
    ahead: None,
    also: None,
};

fn all<T: Float>(dtype: &str) {
    let xs = black_box(numbers::<T>(N, 1));
    let ys = black_box(numbers::<T>(N, 4));
    let [w, v] = [2, 3].map(|seed| black_box(numbers::<T>(COLS, seed)));
    let labels: Vec<i64> = (0..ROWS).map(|i| (i * 7 % COLS) as i64).collect();
    let labels = &labels[..];
    let eps = 1e-5;
    let bytes = |reads: usize, writes: usize| (reads + writes) * N * size_of::<T>();
    let mut kernels: Vec<(&str, usize, BoundKernel)> = Vec::new();
    macro_rules! kernel {
        ($name:literal, $reads:expr, $len:expr, |$out:ident| $run:expr) => {
            let out = scratch::<T>($len);
            let run = move || {
                let $out = &mut out[..];
                $run;
                black_box(&mut *$out);
            };
            let writes = usize::from($len == N);
            kernels.push(($name, bytes($reads, writes), Box::new(run)));
        };
    }
    kernel!("copy", 1, N, |out| out.copy_from_slice(xs));
    kernel!("sum 0", 1, COLS, |out| reduce::fold(
        xs,
        [1, ROWS, COLS],
        out,
        Sum
    ));
    kernel!("sum 1", 1, ROWS, |out| reduce::fold(
        xs,
        [ROWS, COLS, 1],
        out,
        Sum
    ));
    kernel!("sum", 1, 1, |out| reduce::fold(xs, [1, N, 1], out, Sum));
    kernel!("sum middle", 1, ROWS / 64 * COLS, |out| reduce::fold(
        xs,
        [ROWS / 64, 64, COLS],
        out,
        Sum
    ));
    kernel!("max 0", 1, COLS, |out| reduce::fold(
        xs,
        [1, ROWS, COLS],
        out,
        Max
    ));
    kernel!("max 1", 1, ROWS, |out| reduce::fold(
        xs,
        [ROWS, COLS, 1],
        out,
        Max
    ));
    kernel!("softmax", 1, N, |out| forward::softmax(xs, out, COLS, WAY));
    kernel!("log_softmax", 1, N, |out| forward::log_softmax(
        xs, out, COLS, WAY
    ));
    kernel!("logsumexp", 1, ROWS, |out| forward::logsumexp(
        xs, out, COLS, WAY
    ));
    kernel!("normalize", 1, N, |out| forward::normalize(
        xs, out, COLS, eps, WAY
    ));
    kernel!("inv_std", 1, ROWS, |out| forward::inv_std(
        xs, out, COLS, eps, WAY
    ));
    kernel!("layer_norm", 1, N, |out| forward::layer_norm(
        xs,
        [w, v],
        out,
        eps,
        WAY
    ));
    kernel!("softmax_t", 2, N, |out| jacobians::softmax_t(
        [xs, ys],
        out,
        COLS,
        WAY
    ));
    kernel!("normalize_t", 2, N, |out| jacobians::normalize_t(
        [xs, ys, &ys[..ROWS]],
        out,
        COLS,
        WAY
    ));
    kernel!("log_softmax_jvp", 2, N, |out| jacobians::log_softmax_jvp(
        [xs, ys],
        out,
        COLS,
        WAY
    ));
    kernel!("log_softmax_vjp", 2, N, |out| jacobians::log_softmax_vjp(
        [xs, ys],
        out,
        COLS,
        WAY
    ));
    let norm = norm::Norm { centred: true, eps };
    let tangents = [Some(ys), Some(v), Some(w)];
    kernel!("norm_jvp", 2, N, |out| norm::tangents(
        norm, xs, w, tangents, out, WAY
    ));
    let totals = scratch::<T>(ROWS / 32 * 2 * COLS);
    kernel!("norm_vjp", 2, N, |out| norm::cotangents(
        norm,
        [xs, w, ys],
        out,
        totals
    ));
    let losses = scratch::<T>(ROWS);
    kernel!("cross_entropy", 1, 1, |out| {
        forward::losses(xs, Data::I64(labels), losses, &mut [], COLS, WAY);
        out[0] = forward::mean_loss(losses);
    });
    let losses = scratch::<T>(ROWS);
    kernel!("cross_entropy, both", 1, N, |out| {
        forward::losses(xs, Data::I64(labels), losses, out, COLS, WAY);
        black_box(forward::mean_loss(losses));
    });
    kernel!("cross_entropy_grad", 1, N, |out| {
        forward::cross_entropy_grad(xs, Data::I64(labels), out, COLS, WAY);
    });
    kernel!("softmax, rows of 64", 1, N, |out| forward::softmax(
        xs, out, 64, WAY
    ));
    kernel!("sum 1, rows of 10", 1, N / 10, |out| reduce::fold(
        &xs[..N / 10 * 10],
        [N / 10, 10, 1],
        out,
        Sum
    ));
    for (name, axes) in [("argmax 0", [1, ROWS, COLS]), ("argmax 1", [ROWS, COLS, 1])] {
        let mut out = vec![0i64; axes[0] * axes[2]];
        let run = move || reduce::arg_extremum(xs, axes, black_box(&mut out), T::above, Max);
        kernels.push((name, bytes(1, 0), Box::new(run)));
    }
    time(dtype, kernels);
}

#[test]
fn print_the_times_of_row_kernels() {
    println!("{ROWS} rows of {COLS}");
    all::<f32>(f32::TYPE.name());
    all::<f64>(f64::TYPE.name());
}

#[test]
fn print_the_times_of_random_numbers() {
    const N: usize = 1 << 20;
    fn draws<D: Draw>(name: &'static str, draw: D) -> (&'static str, usize, BoundKernel<'static>) {
        let out = scratch::<D::Item>(N);
        let run = move || fill::fill(draw, black_box([1, 2]), black_box(&mut *out));
        (name, N * size_of::<D::Item>(), Box::new(run))
    }
    println!("{N} numbers");
    let mut kernels = vec![
        draws("bits", fill::Bits),
        draws("bernoulli", Flips(0.3)),
        draws("uniform f32", Uniform::<f32>::DRAW),
        draws("uniform f64", Uniform::<f64>::DRAW),
        draws("normal f32", Normal::<f32>::DRAW),
        draws("normal f64", Normal::<f64>::DRAW),
    ];
    let order = || drop(black_box(fill::order(black_box([1, 2]), N)));
    kernels.push(("permutation", N * size_of::<i64>(), Box::new(order)));
    time("random", kernels);
}
