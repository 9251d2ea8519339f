//! `erf_inv` and `ndtri`.
//!
//! In double precision, the inverse of the normal distribution is a quotient of polynomials, in one
//! of three intervals (Wichura, "Algorithm AS 241", Applied Statistics 37, 1988).
//!
//! In single precision, `erf_inv(x) = x P(w)` with `w = -log(1 - x^2)` (M. Giles, "Approximating the
//! erfinv function", GPU Computing Gems 2, 2010). `P` is a minimax polynomial (Remez) in `w`, in one
//! of two intervals. `ndtri` has two more of them, because its arguments have more digits near 0.

use crate::exp::Exp;
use crate::float::Real;
use crate::log::{low_part, parts};
use crate::{Arith, Float, log};
use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};

/// Dividend and divisor for `|x| <= 0.85`, the coefficients of the highest powers first.
pub const CENTRE: [[f64; 8]; 2] = [
    [
        2509.0809287301227,
        33430.57558358813,
        67265.7709270087,
        45921.95393154987,
        13731.69376550946,
        1971.5909503065513,
        133.14166789178438,
        3.3871328727963665,
    ],
    [
        5226.495278852854,
        28729.085735721943,
        39307.89580009271,
        21213.794301586597,
        5394.196021424751,
        687.1870074920579,
        42.31333070160091,
        1.0,
    ],
];
/// The same for the tails.
pub const TAIL: [[f64; 8]; 2] = [
    [
        0.0007745450142783414,
        0.022723844989269184,
        0.2417807251774506,
        1.2704582524523684,
        3.6478483247632045,
        5.769497221460691,
        4.630337846156546,
        1.4234371107496835,
    ],
    [
        1.0507500716444169e-09,
        0.0005475938084995345,
        0.015198666563616457,
        0.14810397642748008,
        0.6897673349851,
        1.6763848301838038,
        2.053191626637759,
        1.0,
    ],
];
/// The same within `e^-25` of the ends.
pub const END: [[f64; 8]; 2] = [
    [
        2.0103343992922881e-07,
        2.7115555687434876e-05,
        0.0012426609473880784,
        0.026532189526576124,
        0.29656057182850487,
        1.7848265399172913,
        5.463784911164114,
        6.657904643501103,
    ],
    [
        2.0442631033899397e-15,
        1.421511758316446e-07,
        1.8463183175100548e-05,
        0.0007868691311456133,
        0.014875361290850615,
        0.1369298809227358,
        0.599832206555888,
        1.0,
    ],
];

/// `erf_inv` and `ndtri`, which `f32` and `f64` compute in different ways.
pub trait InverseErf: Real {
    /// Returns the inverse of `erf`.
    fn erf_inv<A: Arith>(x: Self) -> Self;
    /// Returns the inverse of the normal distribution.
    fn ndtri<A: Arith>(p: Self) -> Self;
}

/// Returns the inverse of `erf`, to 4 ulp (`f32`: 2 ulp).
///
/// It is infinite at 1 and -1, and NaN beyond.
#[inline(always)]
pub fn erf_inv<A: Arith, T: Float>(x: T) -> T {
    T::erf_inv::<A>(x)
}

/// Returns the inverse of the normal distribution, to 4 ulp (`f32`: 2 ulp).
///
/// It is infinite at 0 and 1, and NaN beyond.
#[inline(always)]
pub fn ndtri<A: Arith, T: Float>(p: T) -> T {
    T::ndtri::<A>(p)
}

impl InverseErf for f64 {
    #[inline(always)]
    fn erf_inv<A: Arith>(x: f64) -> f64 {
        let q = 0.5 * x.abs();
        (quantile::<A>(q, 0.5 - q) * FRAC_1_SQRT_2).copysign(x)
    }
    #[inline(always)]
    fn ndtri<A: Arith>(p: f64) -> f64 {
        let q = p - 0.5;
        let rest = if q < 0.0 { p } else { 1.0 - p };
        quantile::<A>(q.abs(), rest).copysign(q)
    }
}

impl InverseErf for f32 {
    #[inline(always)]
    fn erf_inv<A: Arith>(x: f32) -> f32 {
        let a = x.abs();
        let w = minus_log::<A>((1.0 - a) * (1.0 + a));
        let low = const { SplitPolynomial::of(&LOW, 1.0) }.at::<A>(minus(w, 1.0));
        let middle = const { SplitPolynomial::of(&MIDDLE, 1.0) }.at::<A>(minus(w, 11.0));
        let (first, more) = if minus(w, 6.5) <= 0.0 { low } else { middle };
        with_ends(product::<A>(x, None, first, more), x, 1.0 - a)
    }
    #[inline(always)]
    fn ndtri<A: Arith>(p: f32) -> f32 {
        // The result is sqrt(2) erf_inv(2 q).
        const FACTOR: f64 = 2.0 * SQRT_2;
        let (q, q_rest) = (-0.5f32).fast_two_sum(p);
        let rest = if q < 0.0 { p } else { 1.0 - p };
        let w = minus_log::<A>(4.0 * rest * (1.0 - rest));
        let low = const { SplitPolynomial::of(&LOW, FACTOR) }.at::<A>(minus(w, 1.0));
        let middle = const { SplitPolynomial::of(&MIDDLE, FACTOR) }.at::<A>(minus(w, 11.0));
        let high = const { SplitPolynomial::of(&HIGH, FACTOR) }.at::<A>(minus(w, 28.0));
        let highest = const { SplitPolynomial::of(&HIGHEST, FACTOR) }.at::<A>(minus(w, 70.0));
        let end = if minus(w, 40.0) <= 0.0 { high } else { highest };
        let tail = if minus(w, 16.0) <= 0.0 { middle } else { end };
        let (first, more) = if minus(w, 6.5) <= 0.0 { low } else { tail };
        with_ends(product::<A>(q, Some(q_rest), first, more), q, rest)
    }
}

/// Returns `-log z` for `0 < z <= 1` in two parts, the first of which has few digits.
///
/// The rounding error of their sum would be the largest one of the result.
#[inline(always)]
fn minus_log<A: Arith>(z: f32) -> (f32, f32) {
    let (k, m) = parts(z);
    (-(k * f32::LN_2.0), -low_part::<A, f32>(k, m, 0.0))
}

/// Returns the sum of the parts less a number of few digits, rounded once.
#[inline(always)]
fn minus(parts: (f32, f32), centre: f32) -> f32 {
    (parts.0 - centre) + parts.1
}

/// Returns `y` with a sign, or the value at the distance `rest <= 0` from the ends of the domain.
#[inline(always)]
fn with_ends(y: f32, sign: f32, rest: f32) -> f32 {
    let end = if rest == 0.0 { f32::INFINITY } else { f32::NAN };
    (if rest > 0.0 { y } else { end }).copysign(sign)
}

/// Returns `(x + rest) (first + more)` for a small `rest`, where `None` is 0.
#[inline(always)]
fn product<A: Arith>(x: f32, rest: Option<f32>, first: f32, more: f32) -> f32 {
    let (sum, low) = first.fast_two_sum(more);
    let small = match rest {
        Some(rest) => x.fma::<A>(low, rest * sum),
        None => x * low,
    };
    x.fma::<A>(sum, small)
}

/// A polynomial in single precision, whose constant term has two parts.
struct SplitPolynomial<const N: usize> {
    /// The constant term.
    first: f32,
    /// The coefficients, the highest first, with the rounding error of `first` as the last.
    more: [f32; N],
}

impl<const N: usize> SplitPolynomial<N> {
    /// Returns the polynomial with these coefficients times a factor.
    const fn of(coefficients: &[f64; N], factor: f64) -> SplitPolynomial<N> {
        let first = (coefficients[N - 1] * factor) as f32;
        let mut more = [0.0; N];
        let mut i = 0;
        while i < N {
            let before = if i + 1 < N { 0.0 } else { first as f64 };
            more[i] = (coefficients[i] * factor - before) as f32;
            i += 1;
        }
        SplitPolynomial { first, more }
    }

    /// Returns the constant term, and the difference of the value at `r` from it.
    #[inline(always)]
    fn at<A: Arith>(&self, r: f32) -> (f32, f32) {
        (self.first, r.horner::<A, N>(self.more))
    }
}

/// `P` for `w <= 6.5`, in `w - 1`, the coefficients of the highest powers first.
const LOW: [f64; 11] = [
    6.39673846409e-10,
    -1.82241187935e-08,
    1.94315521629e-07,
    -6.51200579592e-07,
    -4.32379443217e-06,
    3.84100053803e-05,
    0.00010003849565,
    -0.00237649593958,
    0.00425076937763,
    0.247832893555,
    1.12737438948,
];
/// `P` for `6.5 <= w <= 16`, in `w - 11`.
const MIDDLE: [f64; 10] = [
    -2.48512224002e-11,
    3.01555754041e-10,
    -1.09104271353e-09,
    -7.33284194038e-09,
    3.01360259935e-07,
    -6.84526077716e-06,
    0.000141006064985,
    -0.00334019384747,
    0.151649275943,
    3.15088357779,
];
/// `P` for `16 <= w <= 40`, in `w - 28`.
const HIGH: [f64; 10] = [
    7.48325680692e-15,
    -2.29923993959e-13,
    5.37145735079e-12,
    -2.06024775249e-10,
    8.22536606291e-09,
    -3.33839986026e-07,
    1.51449996576e-05,
    -0.000854855057232,
    0.0954522612372,
    5.14439500834,
];
/// `P` for `40 <= w <= 102`, in `w - 70`.
const HIGHEST: [f64; 10] = [
    3.28277136001e-18,
    -2.74471739738e-16,
    1.54848131713e-14,
    -1.40088008475e-12,
    1.38745735434e-10,
    -1.38800636654e-08,
    1.55128950805e-06,
    -0.000216582405997,
    0.0601959165393,
    8.2464402926,
];

/// Returns the number above which the normal distribution has the probability `rest = 0.5 - q`, for
/// `q >= 0`.
#[inline(always)]
fn quantile<A: Arith>(q: f64, rest: f64) -> f64 {
    let centre = q <= 0.425;
    let root = (-log::<A, f64>(rest)).sqrt();
    let tail = root <= 5.0;
    let r = if tail { root - 1.6 } else { root - 5.0 };
    let r = if centre {
        (-q).fma::<A>(q, 0.180625)
    } else {
        r
    };
    let (mut top, mut bottom) = (0.0, 0.0);
    let mut i = 0;
    while i < 8 {
        let (a, b) = if tail {
            (TAIL[0][i], TAIL[1][i])
        } else {
            (END[0][i], END[1][i])
        };
        let (a, b) = if centre {
            (CENTRE[0][i], CENTRE[1][i])
        } else {
            (a, b)
        };
        top = top.fma::<A>(r, a);
        bottom = bottom.fma::<A>(r, b);
        i += 1;
    }
    let y = top / bottom;
    let y = if centre { y * q } else { y };
    if rest == 0.0 { f64::INFINITY } else { y }
}
