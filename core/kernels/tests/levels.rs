//! Loops of the elementwise ops at each SIMD level.

use gradloom_ir::Op;
use gradloom_ir::op::{Eval, UnaryLoop};
use gradloom_maths::{Level, Versions};
use std::hint::black_box;
use std::time::Instant;

fn levels() -> impl Iterator<Item = Level> {
    Level::ALL.into_iter().filter(|&l| l <= Level::detect())
}

/// Runs a unary loop at a level that the CPU has.
fn unary<T>(versions: &UnaryLoop<T>, level: Level, xs: &[T], ys: &mut [T]) {
    assert!(level <= Level::detect());
    // SAFETY: the CPU has the level, as asserted.
    unsafe { versions.get(level)(xs, ys) }
}

/// Loop of a binary op or of a comparison.
type TwoOperands<T, U> = Versions<fn(&[T], &[T], &mut [U]), unsafe fn(&[T], &[T], &mut [U])>;

/// Runs a binary loop at a level that the CPU has.
fn binary<T, U>(versions: &TwoOperands<T, U>, level: Level, xs: &[T], ys: &[T], zs: &mut [U]) {
    assert!(level <= Level::detect());
    // SAFETY: the CPU has the level, as asserted.
    unsafe { versions.get(level)(xs, ys, zs) }
}

macro_rules! float_tests {
    ($t:ident, $bits:ident) => {
        mod $t {
            use super::*;

            /// Returns numbers of all magnitudes, and special values.
            fn numbers() -> Vec<$t> {
                let special = [
                    0.0,
                    1.0,
                    0.5,
                    $t::MIN_POSITIVE,
                    $t::MIN_POSITIVE / 3.0,
                    $t::MAX,
                    $t::INFINITY,
                    $t::NAN,
                ];
                let mut xs: Vec<$t> = special.iter().flat_map(|&x| [x, -x]).collect();
                let mut state = 1 as $bits;
                for i in 0..3001 {
                    // Knuth's multiplier; the high bits are random enough.
                    state = state
                        .wrapping_mul(6364136223846793005u64 as $bits)
                        .wrapping_add(1442695040888963407u64 as $bits);
                    let unit = (state >> 8) as $t / ($bits::MAX >> 8) as $t;
                    xs.push(match i % 4 {
                        0 => $t::from_bits(state),
                        1 => 200.0 * unit - 100.0,
                        _ => 8.0 * unit - 4.0,
                    });
                }
                xs
            }

            fn bits(xs: &[$t]) -> Vec<$bits> {
                // The bit pattern of a NaN result is not specified.
                xs.iter()
                    .map(|x| if x.is_nan() { $bits::MAX } else { x.to_bits() })
                    .collect()
            }

            #[test]
            fn levels_with_fma_agree_and_loops_match_single_elements() {
                let xs = numbers();
                let ys: Vec<$t> = xs.iter().rev().copied().collect();
                for &op in Op::ALL {
                    let run: Box<dyn Fn(Level, &[$t], &[$t], &mut [$t])> = match op.def().eval() {
                        Eval::Unary(fns) => Box::new(move |l, x, _, z| unary(&fns.$t, l, x, z)),
                        Eval::Binary(fns) => {
                            Box::new(move |l, x, y, z| binary(&fns.$t, l, x, y, z))
                        }
                        _ => continue,
                    };
                    let mut results = Vec::new();
                    for level in levels() {
                        let mut whole = vec![0.0; xs.len()];
                        run(level, &xs, &ys, &mut whole);
                        let mut single = vec![0.0; xs.len()];
                        for i in 0..xs.len() {
                            run(level, &xs[i..=i], &ys[i..=i], &mut single[i..=i]);
                        }
                        for (i, (a, b)) in bits(&whole).into_iter().zip(bits(&single)).enumerate() {
                            assert_eq!(a, b, "{op} of {:e}, {:e} at {level:?}", xs[i], ys[i]);
                        }
                        if level > Level::Baseline {
                            results.push(bits(&whole));
                        }
                    }
                    assert!(
                        results.windows(2).all(|w| w[0] == w[1]),
                        "{op} differs between levels"
                    );
                }
            }
        }
    };
}

float_tests!(f32, u32);
float_tests!(f64, u64);

/// Prints nanoseconds per element at each level, and for the function of the standard library.
///
/// Run it with `cargo test --release -p gradloom rates -- --nocapture`.
#[test]
fn print_the_rates_of_the_unary_ops() {
    const N: usize = 2048;
    fn best(repeats: usize, mut f: impl FnMut()) -> f64 {
        let mut best = f64::INFINITY;
        for _ in 0..repeats {
            let start = Instant::now();
            for _ in 0..repeats {
                f();
            }
            best = best.min(start.elapsed().as_secs_f64());
        }
        best / repeats as f64 / N as f64 * 1e9
    }
    let repeats = if cfg!(debug_assertions) { 1 } else { 30 };
    macro_rules! row {
        ($op:expr, $fns:expr, $t:ident, $std:expr) => {{
            let (low, high) = $op.def().laws().domain;
            let unit = |i: usize| (i * 619 % N) as f64 / N as f64;
            let xs: Vec<$t> = (0..N)
                .map(|i| (low + (high - low) * unit(i)) as $t)
                .collect();
            let mut ys = vec![0.0; N];
            let mut line = format!("{:<14} {}", $op.def().name(), stringify!($t));
            for level in levels() {
                let time = best(repeats, || {
                    unary(&$fns.$t, level, black_box(&xs), black_box(&mut ys))
                });
                line += &format!(" {time:>9.3}");
            }
            if let Some(std) = $std {
                let std: fn($t) -> $t = std;
                let time = best(repeats, || {
                    for (y, &x) in black_box(&mut ys).iter_mut().zip(black_box(&xs)) {
                        *y = std(x);
                    }
                });
                line += &format!(" {time:>9.3}");
            }
            println!("{line}");
        }};
    }
    macro_rules! std_functions {
        ($t:ident, $name:expr; $($op:ident $f:ident),*) => {
            match $name {
                $(stringify!($op) => Some($t::$f as fn($t) -> $t),)*
                _ => None,
            }
        };
        ($t:ident, $name:expr) => {
            std_functions!($t, $name; exp exp, expm1 exp_m1, log ln, log1p ln_1p, tanh tanh, sin sin, cos cos, tan tan)
        };
    }
    println!("ns an element: {:?}, std", levels().collect::<Vec<_>>());
    for &op in Op::ALL {
        if let Eval::Unary(fns) = op.def().eval() {
            row!(op, fns, f32, std_functions!(f32, op.def().name()));
            row!(op, fns, f64, std_functions!(f64, op.def().name()));
        }
    }
}
