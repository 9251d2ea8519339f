//! The regularised incomplete gamma functions of `f32`, in double precision and without branches.
//!
//! The formulas are those of `f64`, with the numbers of terms that `f32` needs, so that loops over
//! arrays are vectorised. Fractions are evaluated as a dividend and a divisor.
//!
//! | where | formula |
//! | --- | --- |
//! | `a >= 8`, and `abs(eta) <= 1` | the uniform expansion |
//! | `x <= a` or `x < 1.5` elsewhere | the series of the lower function |
//! | elsewhere | the continued fraction of the upper function |
//! | `a < 1`, `x < 1.5`, the upper function | its own series |

use crate::float::Real;
use crate::gamma::STIRLING;
use crate::incomplete_gamma::{CORRECTIONS, ETA};
use crate::pow::{short_exp2, short_log2};
use crate::{Arith, expm1};
use std::f64::consts::{LN_2, LOG2_E, TAU};

/// The least `a` of the uniform expansion.
const LARGE: f64 = 8.0;

/// Returns `P(a, x)` and `Q(a, x)` with a few more digits than an `f32`.
///
/// `a` and `x` are single precision numbers.
#[inline(always)]
pub(crate) fn lower_and_upper<A: Arith>(a: f64, x: f64) -> (f64, f64) {
    let is_large = a >= LARGE;
    let w = 1.0 / a;
    let eta = eta::<A>(a, x);
    let square = 0.5 * a * eta * eta;
    // x^a / gamma(a + 1) for small a, and the greatest factor of both functions
    let log = a * LN_2 * short_log2::<A>(x) - lgamma_1p::<A>(a.at_most(LARGE));
    let exponent = if is_large { -square } else { log - x };
    let exp = short_exp2::<A>(LOG2_E * exponent);
    let root = (w / TAU).sqrt();

    // x^a exp(-x) / gamma(a + 1), which is 0 where the bounds below matter
    let gamma = if is_large {
        root * inverse_gamma::<A>(w)
    } else {
        1.0
    };
    let factor = exp * gamma;
    let (near_a, near_x) = (a.at_most(300.0), x.at_most(300.0));
    let series = factor * series::<A>(near_a, near_x);
    let fraction = factor * a * fraction::<A>(near_a, x.at_most(1e4));
    let half = half_erfc_over_exp::<A>(square.sqrt());
    let shift = root * corrections::<A>(eta, w);
    let uniform = exp
        * if eta > 0.0 {
            half + shift
        } else {
            half - shift
        };

    // The function that is not near 1, except for the upper one of small arguments
    let is_lower = (x < 1.5) | (x <= a);
    let part = if is_lower { series } else { fraction };
    let is_uniform = is_large & (eta.abs() <= 1.0);
    let part = if is_uniform { uniform } else { part };
    let is_small = (a < 1.0) & (x < 1.5);
    let small_upper = small_upper::<A>(a, x, log);
    let upper = if is_small { small_upper } else { 1.0 - part };
    let both = if is_lower {
        (part, upper)
    } else {
        (1.0 - part, part)
    };
    with_ends(a, x, both)
}

/// Returns `both`, or the values at the ends of the domain and outside of it.
#[inline(always)]
fn with_ends(a: f64, x: f64, both: (f64, f64)) -> (f64, f64) {
    let is_one = (a == 0.0) | (x == f64::INFINITY);
    let is_zero = (x == 0.0) | (a == f64::INFINITY);
    let both = if is_one { (1.0, 0.0) } else { both };
    let both = if is_zero { (0.0, 1.0) } else { both };
    // Both ends at once have no value. NaN compares as false.
    if (a >= 0.0) & (x >= 0.0) & !(is_one & is_zero) {
        both
    } else {
        (f64::NAN, f64::NAN)
    }
}

/// Returns the number with the sign of `x - a` and `eta^2 / 2 = x / a - 1 - log(x / a)`.
#[inline(always)]
fn eta<A: Arith>(a: f64, x: f64) -> f64 {
    let e = (x - a) / a;
    let near = sum_of_powers::<A, 11>(&ETA, e);
    let far = (2.0 * (e - LN_2 * short_log2::<A>(x / a))).sqrt();
    if e.abs() < 0.1 { near } else { far.copysign(e) }
}

/// Returns `log gamma(1 + a)` for `0 <= a <= 8`, with a relative error that is small also near 0.
#[inline(always)]
fn lgamma_1p<A: Arith>(a: f64) -> f64 {
    const HALF_LOG_TAU: f64 = 0.9189385332046728;
    let near = a * a.horner::<A, 10>(LGAMMA_NEAR_1);
    // Stirling's series of log gamma(a + 4)
    let z = a + 4.0;
    let w = 1.0 / z;
    let [.., fourth, third, second, first] = STIRLING;
    let series = w * (w * w).horner::<A, 4>([fourth, third, second, first]);
    let product = (a + 1.0) * (a + 2.0) * (a + 3.0);
    let logs = (z - 0.5) * short_log2::<A>(z) - short_log2::<A>(product);
    let far = logs.fma::<A>(LN_2, (series - z) + HALF_LOG_TAU);
    if a <= 0.5 { near } else { far }
}

/// `log gamma(1 + a) / a` for `0 <= a <= 0.5`, the highest power first (Remez).
const LGAMMA_NEAR_1: [f64; 10] = [
    0.014573172398891,
    -0.052656418542357,
    0.098167573178674,
    -0.13561306569168,
    0.1678697775802,
    -0.2071748039376,
    0.27056546592436,
    -0.40068506230164,
    0.82246702511238,
    -0.57721566488158,
];

/// Returns `sqrt(2 pi / a) (a / e)^a / gamma(a)` for `w = 1 / a <= 1 / 8` (Remez).
#[inline(always)]
fn inverse_gamma<A: Arith>(w: f64) -> f64 {
    w.horner::<A, 5>([
        -0.00046352572758222,
        0.0027063991835206,
        0.0034711170009589,
        -0.083333316220676,
        0.99999999995753,
    ])
}

/// Returns `exp(z^2) erfc(z) / 2` for `0 <= z <= 10.3`, by a minimax polynomial (Remez).
#[inline(always)]
fn half_erfc_over_exp<A: Arith>(z: f64) -> f64 {
    ((z - 3.0) / (z + 3.0)).polynomial::<A, 12>([
        2.3715113536653e-06,
        3.2963938910027e-05,
        1.5375717303075e-05,
        -0.00030106569621074,
        0.00035628890527864,
        0.0021354957150607,
        -0.012196646068694,
        0.035832796436053,
        -0.075057937687777,
        0.12280190597003,
        -0.16311678075889,
        0.089500575562442,
    ])
}

/// Returns `1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ..`.
#[inline(always)]
fn series<A: Arith>(a: f64, x: f64) -> f64 {
    const TERMS: i32 = 24;
    let (mut top, mut bottom) = (1.0, 1.0);
    let mut n = TERMS;
    while n > 0 {
        bottom *= a + f64::from(n);
        top = x.fma::<A>(top, bottom);
        n -= 1;
    }
    top / bottom
}

/// Returns the continued fraction `1 / (b(0) + 1 (a - 1) / (b(1) + 2 (a - 2) / (b(2) + ..)))` with
/// `b(i) = x + 1 - a + 2 i`.
#[inline(always)]
fn fraction<A: Arith>(a: f64, x: f64) -> f64 {
    const TERMS: i32 = 22;
    let first = x + 1.0 - a;
    let (mut top, mut bottom) = (first + f64::from(2 * TERMS), 1.0);
    let mut n = TERMS;
    while n > 0 {
        let i = f64::from(n);
        let b = first + 2.0 * (i - 1.0);
        (top, bottom) = (b.fma::<A>(top, (i * a - i * i) * bottom), top);
        n -= 1;
    }
    bottom / top
}

/// Returns `Q(a, x)` for `a < 1` and `x < 1.5`, without the difference of two numbers near 1.
///
/// `log` is that of `x^a / gamma(a + 1)`.
#[inline(always)]
fn small_upper<A: Arith>(a: f64, x: f64, log: f64) -> f64 {
    const TERMS: i32 = 14;
    // The sum of (-x)^n / (n! (a + n)) over n >= 1
    let (mut power, mut top, mut bottom) = (1.0, 0.0, 1.0);
    let mut n = 1;
    while n <= TERMS {
        let i = f64::from(n);
        power *= x * (-1.0 / i);
        top = (a + i).fma::<A>(top, power * bottom);
        bottom *= a + i;
        n += 1;
    }
    let power_1m = expm1::<A, f64>(log);
    -power_1m - (1.0 + power_1m) * (a * (top / bottom))
}

/// Returns the sum of `C(k)(eta) / a^k`.
#[inline(always)]
fn corrections<A: Arith>(eta: f64, w: f64) -> f64 {
    let sum = sum_of_powers::<A, 6>(CORRECTIONS[4], eta);
    let sum = sum.fma::<A>(w, sum_of_powers::<A, 8>(CORRECTIONS[3], eta));
    let sum = sum.fma::<A>(w, sum_of_powers::<A, 10>(CORRECTIONS[2], eta));
    let sum = sum.fma::<A>(w, sum_of_powers::<A, 12>(CORRECTIONS[1], eta));
    sum.fma::<A>(w, sum_of_powers::<A, 14>(CORRECTIONS[0], eta))
}

/// Returns the polynomial with the first `N` of the coefficients, the lowest first.
#[inline(always)]
fn sum_of_powers<A: Arith, const N: usize>(coefficients: &[f64], x: f64) -> f64 {
    let mut sum = coefficients[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum.fma::<A>(x, coefficients[i]);
    }
    sum
}
