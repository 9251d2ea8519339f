//! Compares our matrix products with those of the crates `gemm` (with AVX-512) and
//! `matrixmultiply`.
//!
//! `cargo run --release -p gradloom-examples --features products --bin products -- [--threads N]
//! [--f64] [SHAPE..]`
//!
//! A shape is `M,K,N`, followed by `at` or `bt` if an operand is transposed: `128,512,784,bt`. The
//! program prints the best and the median rate in GFLOP/s for each shape and library. The libraries
//! take turns within each shape, in one process. With one thread it measures CPU time, with more
//! the wall clock.
//!
//! This file lies in a folder `kernel` because the other libraries take pointers, which needs
//! `unsafe`.

use cpu_time::ThreadTime;
use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
struct Shape {
    mkn: [usize; 3],
    a_transposed: bool,
    b_transposed: bool,
}

impl Shape {
    fn parse(text: &str) -> Option<Shape> {
        let parts: Vec<&str> = text.split(',').collect();
        let mkn = parts
            .get(..3)?
            .iter()
            .map(|x| x.parse().ok().filter(|x| *x > 0));
        let mkn: Vec<usize> = mkn.collect::<Option<_>>()?;
        let rest = &parts[3..];
        rest.iter()
            .all(|x| ["at", "bt"].contains(x))
            .then(|| Shape {
                mkn: [mkn[0], mkn[1], mkn[2]],
                a_transposed: rest.contains(&"at"),
                b_transposed: rest.contains(&"bt"),
            })
    }

    fn name(&self) -> String {
        let [m, k, n] = self.mkn;
        let a = if self.a_transposed { ",at" } else { "" };
        let b = if self.b_transposed { ",bt" } else { "" };
        format!("{m},{k},{n}{a}{b}")
    }

    /// Returns the strides of the operands.
    fn strides(&self) -> [[usize; 2]; 2] {
        let [m, k, n] = self.mkn;
        [
            if self.a_transposed { [1, m] } else { [k, 1] },
            if self.b_transposed { [1, k] } else { [n, 1] },
        ]
    }
}

/// Returns the default shapes: squares; a perceptron 784-512-256-10 on 128 rows with its gradients;
/// a transformer block with 1024 rows of 256 with its gradients; heads of 64; a very small one; a
/// vector and a matrix.
fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    let mut add = |m, k, n, a_transposed, b_transposed| {
        shapes.push(Shape {
            mkn: [m, k, n],
            a_transposed,
            b_transposed,
        });
    };
    for n in [64, 128, 256, 512, 1024, 2048] {
        add(n, n, n, false, false);
    }
    for n in [64, 256, 1024] {
        add(n, n, n, true, false);
        add(n, n, n, false, true);
    }
    let layers = [(128, 784, 512), (128, 512, 256), (128, 256, 10)];
    let block = [(1024, 256, 256), (1024, 256, 1024), (1024, 1024, 256)];
    let heads = [(128, 64, 128), (128, 128, 64)];
    for (m, k, n) in [&layers[..], &block, &heads].concat() {
        add(m, k, n, false, false);
        add(m, n, k, false, true);
        add(k, m, n, true, false);
    }
    add(8, 4, 16, false, false);
    for n in [512, 1024, 4096] {
        add(1, n, n, false, false);
        add(n, n, 1, false, false);
        add(n, n, 1, true, false);
    }
    shapes
}

/// The product function of a library. Takes the size, the operands with their strides, the result,
/// and the number of threads.
type Product<T> = fn([usize; 3], (&[T], [usize; 2]), (&[T], [usize; 2]), &mut [T], usize);

macro_rules! libraries {
    ($t:ty: $ours:ident $other:ident) => {{
        fn ours(
            mkn: [usize; 3],
            a: (&[$t], [usize; 2]),
            b: (&[$t], [usize; 2]),
            out: &mut [$t],
            _: usize,
        ) {
            gradloom::__private::$ours(mkn, a, b, out);
        }
        fn of_gemm(
            [m, k, n]: [usize; 3],
            (a, sa): (&[$t], [usize; 2]),
            (b, sb): (&[$t], [usize; 2]),
            out: &mut [$t],
            n_threads: usize,
        ) {
            let [ra, ca, rb, cb] = [sa[0], sa[1], sb[0], sb[1]].map(|s| s as isize);
            let threads = match n_threads {
                1 => gemm::Parallelism::None,
                n => gemm::Parallelism::Rayon(n),
            };
            // SAFETY: the caller, `measure`, allocates each slice with the length of its matrix,
            // and `strides` describes that matrix.
            unsafe {
                gemm::gemm(
                    m,
                    n,
                    k,
                    out.as_mut_ptr(),
                    1,
                    n as isize,
                    false,
                    a.as_ptr(),
                    ca,
                    ra,
                    b.as_ptr(),
                    cb,
                    rb,
                    0.0,
                    1.0,
                    false,
                    false,
                    false,
                    threads,
                );
            }
        }
        fn of_matrixmultiply(
            [m, k, n]: [usize; 3],
            (a, sa): (&[$t], [usize; 2]),
            (b, sb): (&[$t], [usize; 2]),
            out: &mut [$t],
            _: usize,
        ) {
            let [ra, ca, rb, cb] = [sa[0], sa[1], sb[0], sb[1]].map(|s| s as isize);
            // SAFETY: the caller, `measure`, allocates each slice with the length of its matrix,
            // and `strides` describes that matrix.
            unsafe {
                matrixmultiply::$other(
                    m,
                    k,
                    n,
                    1.0,
                    a.as_ptr(),
                    ra,
                    ca,
                    b.as_ptr(),
                    rb,
                    cb,
                    0.0,
                    out.as_mut_ptr(),
                    n as isize,
                    1,
                );
            }
        }
        [
            ("gradloom", ours as Product<$t>),
            ("gemm", of_gemm),
            ("matrixmultiply", of_matrixmultiply),
        ]
    }};
}

fn measure<T: Copy + Default>(
    shapes: &[Shape],
    libraries: &[(&str, Product<T>)],
    n_threads: usize,
    number: fn(f64) -> T,
    error: fn(T, f64) -> f64,
) {
    print!("{:>20}", "");
    for (name, _) in libraries {
        print!(" {name:>16}");
    }
    println!();
    for shape in shapes {
        let [m, k, n] = shape.mkn;
        let [sa, sb] = shape.strides();
        let data = |len: usize, step: usize| -> Vec<T> {
            let of = |i: usize| number((i * step % 1000) as f64 * 1e-3 - 0.5);
            (0..len).map(of).collect()
        };
        let values = |i: usize, step: usize| (i * step % 1000) as f64 * 1e-3 - 0.5;
        let (a, b) = (data(m * k, 7919), data(k * n, 104729));
        let mut out = vec![T::default(); m * n];
        let flops = 2.0 * (m * k * n) as f64;
        // Enough repetitions that the resolution of the clock does not matter.
        let repeat = (4e6 / flops).ceil() as usize;
        let mut times = vec![Vec::new(); libraries.len()];
        let start = Instant::now();
        while times[0].len() < 7
            || (start.elapsed() < Duration::from_millis(300) && times[0].len() < 500)
        {
            for ((name, product), times) in libraries.iter().zip(&mut times) {
                let (wall, cpu) = (Instant::now(), ThreadTime::now());
                for _ in 0..repeat {
                    product(shape.mkn, (&a, sa), (&b, sb), &mut out, n_threads);
                }
                let time = if n_threads == 1 {
                    cpu.elapsed()
                } else {
                    wall.elapsed()
                };
                times.push(time.as_secs_f64() / repeat as f64);
                let (i, j) = (m / 2, n / 3);
                let term =
                    |p| values(i * sa[0] + p * sa[1], 7919) * values(p * sb[0] + j * sb[1], 104729);
                let want: f64 = (0..k).map(term).sum();
                assert!(error(out[i * n + j], want) < 1e-3, "{name} is wrong");
            }
        }
        print!("{:>20}", shape.name());
        for times in &mut times {
            times.sort_by(f64::total_cmp);
            let rate = |time: f64| flops / time * 1e-9;
            let (best, median) = (rate(times[0]), rate(times[times.len() / 2]));
            print!(" {:>16}", format!("{best:.1} ({median:.1})"));
        }
        println!();
    }
}

fn main() {
    let mut asked = Vec::new();
    let (mut n_threads, mut double) = (1, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--f64" => double = true,
            "--threads" => {
                let n = args.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
                n_threads = n.expect("`--threads` is a number above 0");
            }
            shape => asked
                .push(Shape::parse(shape).expect("a shape is `M,K,N`, `M,K,N,at` or `M,K,N,bt`")),
        }
    }
    let shapes = if asked.is_empty() { shapes() } else { asked };
    gradloom::set_threads(n_threads);
    if double {
        let libraries = libraries!(f64: product_f64 dgemm);
        measure(&shapes, &libraries, n_threads, |x| x, |x, y| (x - y).abs());
    } else {
        let libraries = libraries!(f32: product_f32 sgemm);
        measure(
            &shapes,
            &libraries,
            n_threads,
            |x| x as f32,
            |x, y| (f64::from(x) - y).abs(),
        );
    }
}
