//! The error of each function in single precision, at all numbers or a sample of them.
//!
//! ```sh
//! GRADLOOM_STRIDE=1 RUSTFLAGS=-Ctarget-cpu=native cargo test --release -p gradloom-maths --test f32_errors -- --nocapture
//! ```
//!
//! tests every number, and prints the greatest error of each function and its argument. Without
//! `RUSTFLAGS` this is very slow, because each fused multiply-add is a call of the C library.
//! `GRADLOOM_FUNCTION=erfc` tests only that function.
//!
//! The reference is the function in double precision: an error of 4 ulp there is 7e-9 ulp in single
//! precision. It is the function of the C library or, if that has none, the function of this crate,
//! which `f64_errors` compares with more digits.

use gradloom_maths::{self as maths, Fused, Plain};

/// A function applied to the elements of a slice.
type Each<T> = fn(&[T], &mut [T]);

struct Row {
    name: &'static str,
    plain: Each<f32>,
    fused: Each<f32>,
    exact: Each<f64>,
    /// The bound on the error, in ulp.
    bound: f64,
}

macro_rules! each {
    ($f:expr) => {
        |xs, ys| {
            for (x, y) in xs.iter().zip(ys) {
                *y = $f(*x);
            }
        }
    };
}

macro_rules! rows {
    ($($name:ident $reference:expr, $bound:literal;)*) => {
        [$(Row {
            name: stringify!($name),
            plain: each!(maths::$name::<Plain, f32>),
            fused: each!(maths::$name::<Fused, f32>),
            exact: each!($reference),
            bound: $bound,
        }),*]
    };
}

const ROWS: &[Row] = &rows! {
    exp f64::exp, 1.1;
    expm1 f64::exp_m1, 2.0;
    tanh f64::tanh, 2.0;
    log f64::ln, 1.0;
    log1p f64::ln_1p, 1.0;
    softplus |x: f64| if x.is_nan() { x } else { x.max(0.0) + (-x.abs()).exp().ln_1p() }, 2.0;
    erf maths::erf::<Fused, f64>, 1.8;
    erfc maths::erfc::<Fused, f64>, 2.0;
    gelu maths::gelu::<Fused, f64>, 2.0;
    gelu_tanh maths::gelu_tanh::<Fused, f64>, 2.0;
    sin f64::sin, 1.0;
    cos f64::cos, 1.0;
    tan f64::tan, 1.0;
    sigmoid |x: f64| 1.0 / (1.0 + (-x).exp()), 2.0;
    asin f64::asin, 0.51;
    acos f64::acos, 0.51;
    atan f64::atan, 0.51;
    sinh f64::sinh, 0.51;
    cosh f64::cosh, 0.51;
    asinh maths::asinh::<Fused, f64>, 0.51;
    acosh maths::acosh::<Fused, f64>, 0.51;
    atanh maths::atanh::<Fused, f64>, 0.51;
    cbrt f64::cbrt, 0.51;
    log2 f64::log2, 0.51;
    log10 f64::log10, 0.51;
    exp2 f64::exp2, 0.51;
    erf_inv maths::erf_inv::<Fused, f64>, 2.0;
    ndtri maths::ndtri::<Fused, f64>, 2.0;
    erfcx maths::erfcx::<Fused, f64>, 4.0;
    lgamma maths::lgamma::<Fused, f64>, 0.51;
    digamma maths::digamma::<Fused, f64>, 0.51;
    i0 maths::i0::<Fused, f64>, 0.51;
    i0e maths::i0e::<Fused, f64>, 0.51;
    i1 maths::i1::<Fused, f64>, 0.51;
    i1e maths::i1e::<Fused, f64>, 0.51;
    mish maths::mish::<Fused, f64>, 0.51;
    exp1 maths::exp1::<Fused, f64>, 0.51;
    expi maths::expi::<Fused, f64>, 0.51;
    spence maths::spence::<Fused, f64>, 0.51;
};

/// Returns the distance from the exact result in ulp, or 0 if `found` is the nearest number.
#[inline(always)]
fn ulps(found: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    // Zeros must have equal signs. The code has no branches, because it takes half of the time.
    let same = (found == nearest) & ((nearest != 0.0) | (found.to_bits() == nearest.to_bits()));
    let right = same | (found.is_nan() & exact.is_nan());
    let wild = !found.is_finite() | !nearest.is_finite() | (found == nearest);
    let exponent = ((exact.to_bits() >> 52) & 0x7ff).max(1023 - 126);
    // 2^(23 - exponent), which is normal for every exponent of single precision.
    let per_unit = f64::from_bits((2 * 1023 + 23u64).wrapping_sub(exponent) << 52);
    let error = (f64::from(found) - exact).abs() * per_unit;
    let error = if wild { f64::INFINITY } else { error };
    if right { 0.0 } else { error }
}

/// The greatest error and its argument.
#[derive(Clone, Copy)]
struct Worst {
    ulps: f64,
    at: f32,
}

impl Worst {
    const NONE: Worst = Worst { ulps: 0.0, at: 0.0 };

    fn include(&mut self, xs: &[f32], ys: &[f32], exact: &[f64]) {
        let errors = || ys.iter().zip(exact).map(|(y, exact)| ulps(*y, *exact));
        let greatest = errors().fold(0.0, |a: f64, b| if b > a { b } else { a });
        if greatest > self.ulps {
            let i = errors()
                .position(|e| e == greatest)
                .expect("it is one of them");
            *self = Worst {
                ulps: greatest,
                at: xs[i],
            };
        }
    }
}

/// Returns the greatest errors of the plain and the fused function, over every `stride`-th number.
fn worst(row: &Row, stride: usize) -> [Worst; 2] {
    const CHUNK: usize = 512;
    let numbers = (1usize << 32).div_ceil(stride);
    let mut worst = [Worst::NONE; 2];
    let (mut xs, mut wide) = ([0f32; CHUNK], [0f64; CHUNK]);
    let (mut ys, mut exact) = ([0f32; CHUNK], [0f64; CHUNK]);
    for (i, start) in (0..numbers).step_by(CHUNK).enumerate() {
        for j in 0..CHUNK {
            // The bits wrap around after the last number.
            let bits = ((start + j) * stride) as u32;
            xs[j] = f32::from_bits(bits);
            wide[j] = f64::from(xs[j]);
        }
        (row.exact)(&wide, &mut exact);
        for (f, worst) in [row.plain, row.fused].into_iter().zip(&mut worst) {
            f(&xs, &mut ys);
            worst.include(&xs, &ys, &exact);
        }
        if i % (1 << 20) == (1 << 20) - 1 {
            eprintln!(
                "{} {:.0} %",
                row.name,
                100.0 * start as f64 / numbers as f64
            );
        }
    }
    worst
}

#[test]
fn no_error_exceeds_its_bound() {
    let stride = std::env::var("GRADLOOM_STRIDE").map_or(40_009, |s| s.parse().expect("a number"));
    let only = std::env::var("GRADLOOM_FUNCTION").ok();
    let mut bad = Vec::new();
    for row in ROWS
        .iter()
        .filter(|row| only.as_deref().is_none_or(|name| name == row.name))
    {
        let [plain, fused] = worst(row, stride);
        println!(
            "{:<10} plain {:.3} at {:e}, fused {:.3} at {:e}",
            row.name, plain.ulps, plain.at, fused.ulps, fused.at
        );
        if plain.ulps.max(fused.ulps) > row.bound {
            bad.push(row.name);
        }
    }
    assert!(bad.is_empty(), "more than the bound: {bad:?}");
}

/// Random numbers that are the same in each run.
struct Random(u64);

impl Random {
    /// Returns a number from `low` to `high`.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        low + (high - low) * (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Checks a function of two arguments at random points that `point` chooses.
fn check_binary(
    name: &str,
    fs: [fn(f32, f32) -> f32; 2],
    exact: fn(f64, f64) -> f64,
    bound: f64,
    point: fn(&mut Random) -> (f64, f64),
) {
    let count = std::env::var("GRADLOOM_POINTS").map_or(20_000, |s| s.parse().expect("a number"));
    let mut random = Random(1);
    let mut worst = (0.0, 0.0, 0.0);
    for _ in 0..count {
        let (x, y) = point(&mut random);
        let (x, y) = (x as f32, y as f32);
        let right = exact(f64::from(x), f64::from(y));
        for f in fs {
            let error = ulps(f(x, y), right);
            if error > worst.0 {
                worst = (error, x, y);
            }
        }
    }
    println!("{name}: {:.3} at {:e}, {:e}", worst.0, worst.1, worst.2);
    assert!(worst.0 <= bound, "{name}: {worst:?}");
}

#[test]
fn the_zeta_function_is_within_its_bound() {
    let fs = [maths::zeta::<Plain, f32>, maths::zeta::<Fused, f32>];
    let exact = maths::zeta::<Plain, f64>;
    check_binary("zeta near the pole", fs, exact, 0.53, |r| {
        (
            1.0 + r.between(-20.0, 1.0).exp2(),
            r.between(-10.0, 10.0).exp2(),
        )
    });
    check_binary("zeta of small numbers", fs, exact, 0.53, |r| {
        (r.between(1.0, 30.0), r.between(0.0, 10.0))
    });
    check_binary("zeta of all sizes", fs, exact, 0.53, |r| {
        let q = r.between(-149.0, 127.0).exp2();
        (1.0 + r.between(0.0, 1.0) * (150.0 / q.log2()).abs(), q)
    });
    // The terms are steep where the first one hardly varies.
    check_binary("zeta of large exponents", fs, exact, 0.53, |r| {
        let q = r.between(0.0, 20.0).exp2();
        (1.0 + q * r.between(0.0, 12.0), q)
    });
    check_binary("zeta of even exponents below 0", fs, exact, 0.53, |r| {
        (
            2.0 * r.between(1.0, 12.0).floor(),
            -r.between(-20.0, 10.0).exp2(),
        )
    });
}

#[test]
fn the_polygamma_function_is_within_its_bound() {
    let fs = [
        maths::polygamma::<Plain, f32>,
        maths::polygamma::<Fused, f32>,
    ];
    let exact = maths::polygamma::<Plain, f64>;
    check_binary("polygamma of low orders", fs, exact, 0.53, |r| {
        (r.between(-20.0, 20.0).exp2(), r.between(0.0, 6.0).round())
    });
    check_binary("polygamma of high orders", fs, exact, 0.53, |r| {
        (r.between(0.0, 70.0), r.between(1.0, 150.0).round())
    });
    check_binary("polygamma of odd orders below 0", fs, exact, 0.53, |r| {
        (
            -r.between(-10.0, 10.0).exp2(),
            1.0 + 2.0 * r.between(0.0, 4.0).round(),
        )
    });
}

#[test]
fn the_incomplete_gamma_functions_are_within_their_bounds() {
    for (name, fs, exact) in [
        (
            "gammainc",
            [
                maths::gammainc::<Plain, f32> as fn(f32, f32) -> f32,
                maths::gammainc::<Fused, f32>,
            ],
            maths::gammainc::<Plain, f64> as fn(f64, f64) -> f64,
        ),
        (
            "gammaincc",
            [
                maths::gammaincc::<Plain, f32>,
                maths::gammaincc::<Fused, f32>,
            ],
            maths::gammaincc::<Plain, f64>,
        ),
    ] {
        check_binary(&format!("{name} of small numbers"), fs, exact, 0.8, |r| {
            (r.between(-20.0, 4.0).exp2(), r.between(-20.0, 4.0).exp2())
        });
        check_binary(&format!("{name} below 10"), fs, exact, 0.8, |r| {
            (r.between(0.0, 10.0), r.between(0.0, 10.0))
        });
        check_binary(&format!("{name} of all sizes"), fs, exact, 0.8, |r| {
            (
                r.between(-149.0, 127.0).exp2(),
                r.between(-149.0, 127.0).exp2(),
            )
        });
        check_binary(&format!("{name} up to 300"), fs, exact, 0.8, |r| {
            (r.between(0.0, 300.0), r.between(0.0, 400.0))
        });
        check_binary(&format!("{name} of large numbers"), fs, exact, 0.8, |r| {
            let a = r.between(3.0, 30.0).exp2();
            (a, a + r.between(-12.0, 12.0) * a.sqrt())
        });
    }
}

/// Its terms have both signs, so that it has roots.
#[test]
fn the_zeta_function_of_odd_exponents_is_near_that_of_f64_below_0() {
    let mut random = Random(1);
    for _ in 0..20_000 {
        let s = 1.0 + 2.0 * random.between(1.0, 6.0).floor();
        let q = f64::from(-random.between(0.0, 6.0) as f32);
        let greatest = (q - q.round()).abs().powf(-s);
        let exact = maths::zeta::<Plain, f64>(s, q);
        let tolerance = 6e-8 * exact.abs() + 1e-9 * greatest;
        for f in [maths::zeta::<Plain, f32>, maths::zeta::<Fused, f32>] {
            let found = f(s as f32, q as f32);
            let is_near = (f64::from(found) - exact).abs() <= tolerance;
            assert!(is_near || found == exact as f32, "{s} {q}: {found} {exact}");
        }
    }
}

#[test]
fn powers_are_correctly_rounded_up_to_0_501_ulp() {
    let mut numbers = Random(1);
    let mut random = || numbers.between(0.0, 1.0);
    for _ in 0..100_000 {
        let x = (200.0 * random() - 100.0).exp2() as f32;
        let y = (150.0 * (2.0 * random() - 1.0) / f64::from(x).log2()) as f32;
        let exact = f64::from(x).powf(f64::from(y));
        for f in [maths::pow::<Plain, f32>, maths::pow::<Fused, f32>] {
            assert!(ulps(f(x, y), exact) <= 0.501, "{x:e} to the {y:e}");
        }
    }
}
