//! `asin`, `acos`, `atan` and `atan2`, computed in double precision.
//!
//! `asin` is a polynomial up to 1/2, and `asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2))` above.
//! `atan` of a quotient is a polynomial up to `tan(pi/8)`. Otherwise it is the `atan` of another
//! quotient, to which `pi/4` or `pi/2` is added, so one division suffices.

use crate::float::Real;
use crate::{Arith, Float};
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

/// `pi/2` minus its nearest number.
const FRAC_PI_2_REST: f64 = 6.123233995736766e-17;
/// `tan(pi/8)`
const TAN_PI_8: f64 = 0.41421356237309503;

/// Returns the arcsine, to 1 ulp.
#[inline(always)]
pub fn asin<A: Arith, T: Float>(x: T) -> T {
    let x = x.wide();
    let Half { s, rest, far } = half::<A>(x);
    let (head, low) = FRAC_PI_2.fast_two_sum(-2.0 * s);
    let large = head + (low - (2.0 * rest - FRAC_PI_2_REST));
    let y = if far { large } else { s + rest };
    T::of(y.copysign(x))
}

/// Returns the arccosine, to 1.5 ulp.
#[inline(always)]
pub fn acos<A: Arith, T: Float>(x: T) -> T {
    let x = x.wide();
    let Half { s, rest, far } = half::<A>(x);
    let (sign, top) = if far {
        (2.0, 2.0 * FRAC_PI_2)
    } else {
        (1.0, FRAC_PI_2)
    };
    let top_rest = if far {
        2.0 * FRAC_PI_2_REST
    } else {
        FRAC_PI_2_REST
    };
    // acos(|x|) = 2 asin(s) above 1/2, and the rest follows from pi - acos(|x|) or pi/2 - asin(x).
    let (s, rest) = (sign * s, sign * rest);
    let direct = far & !x.is_sign_negative();
    let add = !far & x.is_sign_negative();
    let (s_signed, rest_signed) = if add { (s, rest) } else { (-s, -rest) };
    let (head, low) = top.fast_two_sum(s_signed);
    let folded = head + (low + (rest_signed + top_rest));
    T::of(if direct { s + rest } else { folded })
}

/// `asin(a)` as `s + rest`, where `a` is `|x|`, or `sqrt((1 - |x|) / 2)` if `|x|` is far from 0.
struct Half {
    s: f64,
    rest: f64,
    far: bool,
}

#[inline(always)]
fn half<A: Arith>(x: f64) -> Half {
    let a = x.abs();
    let far = a > 0.5;
    // The difference is exact, and the square root is corrected by its rounding error.
    let z = if far { (1.0 - a) * 0.5 } else { a * a };
    let root = z.sqrt();
    let (square, low) = root.two_product::<A>(root);
    let correction = ((z - square) - low) / (root + root);
    let correction = if far & (root > 0.0) { correction } else { 0.0 };
    let s = if far { root } else { a };
    // (asin(s) / s - 1) / z, a minimax polynomial
    let tail = z.polynomial::<A, 13>([
        0.02877844261259304,
        -0.014881409392818066,
        0.017419357964884856,
        0.00545087818772055,
        0.010324318288744113,
        0.011478952690257387,
        0.013971235301124539,
        0.017352391265909227,
        0.022372173002005596,
        0.030381944137085216,
        0.04464285714637338,
        0.07499999999998425,
        0.16666666666666669,
    ]);
    Half {
        s,
        rest: (tail * z).fma::<A>(s, correction),
        far,
    }
}

/// Returns the arctangent, to 2 ulp.
#[inline(always)]
pub fn atan<A: Arith, T: Float>(x: T) -> T {
    let x = x.wide();
    T::of(angle::<A>(x.abs(), 1.0).copysign(x))
}

/// Returns the angle of the point `(x, y)`, from `-pi` to `pi`, to 2 ulp.
#[inline(always)]
pub fn atan2<A: Arith, T: Float>(y: T, x: T) -> T {
    let (y, x) = (y.wide(), x.wide());
    let (a, b) = (y.abs(), x.abs());
    // No sum of the two may be infinite, and no product with `tan(pi/8)` denormal.
    let large = (a > 1e300) | (b > 1e300);
    let small = (a < 1e-280) & (b < 1e-280);
    let scale = if large { 0.25 } else { 1.0 };
    let scale = if small { 1e20 } else { scale };
    let both = (a == f64::INFINITY) & (b == f64::INFINITY);
    let (a, b) = if both {
        (1.0, 1.0)
    } else {
        (a * scale, b * scale)
    };
    let first = angle::<A>(a, b);
    let second = PI - (first - 2.0 * FRAC_PI_2_REST);
    T::of((if x.is_sign_negative() { second } else { first }).copysign(y))
}

/// Returns `atan(a / b)` for `a >= 0` and `b >= 0`.
#[inline(always)]
fn angle<A: Arith>(a: f64, b: f64) -> f64 {
    let steep = TAN_PI_8 * a > b;
    let middle = !steep & (a > TAN_PI_8 * b);
    let (top, bottom) = if middle { (a - b, a + b) } else { (a, b) };
    let (top, bottom) = if steep { (-b, a) } else { (top, bottom) };
    let (base, base_rest) = if middle {
        (FRAC_PI_4, 0.5 * FRAC_PI_2_REST)
    } else {
        (0.0, 0.0)
    };
    let (base, base_rest) = if steep {
        (FRAC_PI_2, FRAC_PI_2_REST)
    } else {
        (base, base_rest)
    };
    let origin = (a == 0.0) & (b == 0.0);
    let q = if origin { 0.0 } else { top / bottom };
    let z = q * q;
    // (atan(q) / q - 1) / z, a minimax polynomial
    let tail = z.polynomial::<A, 12>([
        0.016285183029865667,
        -0.034570044186095536,
        0.04551573086664191,
        -0.052304498567092406,
        0.05878928398517232,
        -0.06666424833613552,
        0.07692296372129964,
        -0.09090908753400499,
        0.11111111105153429,
        -0.14285714285659806,
        0.19999999999999804,
        -0.3333333333333333,
    ]);
    let (head, low) = base.two_sum(q);
    head + (low + (tail * z).fma::<A>(q, base_rest))
}
