//! The error of each function in single precision, over all numbers or a sample of them.
//!
//! `GRADLOOM_STRIDE=1 cargo test --release -p gradloom-maths --test f32_errors -- --nocapture` takes every number, and
//! prints the greatest error of each function.

use gradloom_maths::{self as maths, Fused, Plain};

/// The name, the function with either arithmetic, the same in double precision, the greatest error in ulp.
type Row = (&'static str, [fn(f32) -> f32; 2], fn(f64) -> f64, f64);

macro_rules! rows {
    ($($name:ident $reference:expr, $bound:literal;)*) => {
        [$((
            stringify!($name),
            [maths::$name::<Plain, f32>, maths::$name::<Fused, f32>],
            $reference,
            $bound,
        )),*]
    };
}

const ROWS: &[Row] = &rows! {
    exp f64::exp, 1.1;
    expm1 f64::exp_m1, 2.0;
    tanh f64::tanh, 2.0;
    log f64::ln, 1.0;
    log1p f64::ln_1p, 1.0;
    softplus |x| if x.is_nan() { x } else { x.max(0.0) + (-x.abs()).exp().ln_1p() }, 2.0;
    erf maths::erf::<Fused, f64>, 1.8;
    erfc maths::erfc::<Fused, f64>, 2.2;
    gelu maths::gelu::<Fused, f64>, 2.0;
    gelu_tanh maths::gelu_tanh::<Fused, f64>, 2.0;
    sin f64::sin, 1.0;
    cos f64::cos, 1.0;
    tan f64::tan, 1.0;
    sigmoid |x| 1.0 / (1.0 + (-x).exp()), 2.0;
};

/// The distance to the exact result, in units of its last place.
fn ulps(found: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    if found == nearest || (found.is_nan() && exact.is_nan()) {
        // A zero has a sign.
        let same_zero = nearest != 0.0 || found.is_sign_negative() == exact.is_sign_negative();
        return if same_zero { 0.0 } else { f64::INFINITY };
    }
    if !found.is_finite() || !nearest.is_finite() {
        return f64::INFINITY;
    }
    let exponent = (exact.abs().to_bits() >> 52) as i32 - 1023;
    let unit = 2f64.powi(exponent.max(-126) - 23);
    (f64::from(found) - exact).abs() / unit
}

/// The greatest error of each of two functions, and where it is.
fn worst(fs: [fn(f32) -> f32; 2], exact: fn(f64) -> f64, stride: usize) -> [(f64, f32); 2] {
    let half = |from: u32| {
        let mut worst = [(0.0, 0.0); 2];
        for bits in (from..from + 0x7fff_ffff).step_by(stride) {
            let x = f32::from_bits(bits);
            let exact = exact(f64::from(x));
            for (worst, f) in worst.iter_mut().zip(fs) {
                let error = ulps(f(x), exact);
                if error > worst.0 {
                    *worst = (error, x);
                }
            }
        }
        worst
    };
    let (a, b) = std::thread::scope(|s| {
        let negative = s.spawn(|| half(0x8000_0000));
        (half(0), negative.join().expect("no panic"))
    });
    [0, 1].map(|i| if a[i].0 >= b[i].0 { a[i] } else { b[i] })
}

#[test]
fn no_error_is_greater_than_is_said() {
    let stride = std::env::var("GRADLOOM_STRIDE").map_or(40_009, |s| s.parse().expect("a number"));
    let mut bad = Vec::new();
    for &(name, fs, exact, bound) in ROWS {
        let [plain, fused] = worst(fs, exact, stride);
        println!(
            "{name:<10} plain {:.3} at {:e}, fused {:.3} at {:e}",
            plain.0, plain.1, fused.0, fused.1
        );
        if plain.0.max(fused.0) > bound {
            bad.push(name);
        }
    }
    assert!(bad.is_empty(), "more than the bound: {bad:?}");
}

#[test]
fn powers_are_rounded_once() {
    let mut state = 1u64;
    let mut random = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    for _ in 0..100_000 {
        let x = (200.0 * random() - 100.0).exp2() as f32;
        let y = (150.0 * (2.0 * random() - 1.0) / f64::from(x).log2()) as f32;
        let exact = f64::from(x).powf(f64::from(y));
        for f in [maths::pow::<Plain, f32>, maths::pow::<Fused, f32>] {
            assert!(ulps(f(x, y), exact) <= 0.501, "{x:e} to the {y:e}");
        }
    }
}
