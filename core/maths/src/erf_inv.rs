//! `erf_inv` and `ndtri`, computed in double precision.
//!
//! The inverse of the normal distribution is a quotient of polynomials, in one of three intervals
//! (Wichura, "Algorithm AS 241", Applied Statistics 37, 1988).

use crate::float::Real;
use crate::{Arith, Float, log};
use std::f64::consts::FRAC_1_SQRT_2;

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

/// Returns the inverse of `erf`, to 4 ulp. It is infinite at 1 and -1, and NaN beyond.
#[inline(always)]
pub fn erf_inv<A: Arith, T: Float>(x: T) -> T {
    let x = x.wide();
    let q = 0.5 * x.abs();
    T::of((quantile::<A>(q, 0.5 - q) * FRAC_1_SQRT_2).copysign(x))
}

/// Returns the inverse of the normal distribution, to 4 ulp. It is infinite at 0 and 1, and NaN beyond.
#[inline(always)]
pub fn ndtri<A: Arith, T: Float>(p: T) -> T {
    let p = p.wide();
    let q = p - 0.5;
    let rest = if q < 0.0 { p } else { 1.0 - p };
    T::of(quantile::<A>(q.abs(), rest).copysign(q))
}

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
