//! `sinh`, `cosh` and their inverses, computed in double precision.

use crate::exp::exp_below_max;
use crate::float::Real;
use crate::log::{Log, log1p_sum, of_parts, parts};
use crate::{Arith, Float};
use std::f64::consts::LN_2;

/// From here on, `sqrt(1 + x^2)` is `x`.
const HUGE: f64 = 1e17;

/// Returns the hyperbolic sine, to 2 ulp.
#[inline(always)]
pub fn sinh<A: Arith, T: Float>(x: T) -> T {
    let x = x.wide();
    let a = x.abs();
    let e = half_exp::<A>(a);
    let large = e - 0.25 / e;
    let z = x * x;
    // (sinh(x) / x - 1) / z, a minimax polynomial
    let tail = z.polynomial::<A, 8>([
        2.8445264169895285e-15,
        7.646625361656657e-13,
        1.6059048396350562e-10,
        2.505210836405804e-08,
        2.755731922404034e-06,
        0.00019841269841269773,
        0.008333333333333333,
        0.16666666666666666,
    ]);
    let small = (tail * z).fma::<A>(a, a);
    T::of((if a < 1.0 { small } else { large }).copysign(x))
}

/// Returns the hyperbolic cosine, to 2 ulp.
#[inline(always)]
pub fn cosh<A: Arith, T: Float>(x: T) -> T {
    let e = half_exp::<A>(x.wide().abs());
    T::of(e + 0.25 / e)
}

/// Returns `e^a / 2` for `a >= 0`.
#[inline(always)]
fn half_exp<A: Arith>(a: f64) -> f64 {
    let (head, low) = a.at_most(712.0).two_sum(-LN_2);
    exp_below_max::<A, f64>(head, low - 2.3190468138462996e-17)
}

/// Returns the inverse hyperbolic sine, to 2 ulp.
#[inline(always)]
pub fn asinh<A: Arith, T: Float>(x: T) -> T {
    let x = x.wide();
    let a = x.abs();
    let bounded = a.at_most(HUGE);
    let square = bounded * bounded;
    // log(1 + a + w) with w = sqrt(1 + a^2) - 1
    let w = square / (1.0 + (1.0 + square).sqrt());
    let (u, rest) = bounded.fast_two_sum(w);
    let y = log1p_sum::<A>(u, rest);
    T::of(or_log_of_twice::<A>(a, y).copysign(x))
}

/// Returns the inverse hyperbolic cosine, to 2 ulp.
#[inline(always)]
pub fn acosh<A: Arith, T: Float>(x: T) -> T {
    let x = x.wide();
    // log(1 + t + sqrt(t (t + 2))) with t = x - 1, and the square root in two parts
    let t = x.at_most(HUGE) - 1.0;
    let (sum, sum_rest) = t.two_sum(2.0);
    let (square, square_rest) = t.two_product::<A>(sum);
    let root = square.sqrt();
    let (back, back_rest) = root.two_product::<A>(root);
    let error = ((square - back) - back_rest) + t.fma::<A>(sum_rest, square_rest);
    let root_rest = if root > 0.0 { 0.5 * error / root } else { 0.0 };
    let (u, rest) = root.two_sum(t);
    let y = log1p_sum::<A>(u, rest + root_rest);
    let y = or_log_of_twice::<A>(x, y);
    T::of(if x < 1.0 { f64::NAN } else { y })
}

/// Returns `y`, or `log(2 a)` if `a` is huge.
#[inline(always)]
fn or_log_of_twice<A: Arith>(a: f64, y: f64) -> f64 {
    let (k, m) = f64::split_power(a);
    let huge = of_parts::<A, f64>(k + 1.0, m, 0.0);
    let y = if a > HUGE { huge } else { y };
    if a < f64::INFINITY { y } else { a }
}

/// Returns the inverse hyperbolic tangent, to 2 ulp.
#[inline(always)]
pub fn atanh<A: Arith, T: Float>(x: T) -> T {
    let x = x.wide();
    let a = x.abs();
    let z = a * a;
    let small = (0.5 * f64::log_tail_to_2::<A>(z) * z).fma::<A>(a, a);
    // log((1 + a) / (1 - a)) / 2 with the quotient in two parts
    let (top, top_rest) = 1.0.fast_two_sum(a);
    let (bottom, bottom_rest) = 1.0.fast_two_sum(-a);
    let q = top / bottom;
    let (back, back_rest) = q.two_product::<A>(bottom);
    let error = ((top - back) - back_rest) + (top_rest - q * bottom_rest);
    let (k, m) = parts(q);
    let large = 0.5 * of_parts::<A, f64>(k, m, error / top);
    let y = if a < 1.0 / 3.0 { small } else { large };
    let y = if a == 1.0 { f64::INFINITY } else { y };
    let y = if a > 1.0 { f64::NAN } else { y };
    // A NaN stays one.
    T::of((if a <= 1.0 { y } else { y + a - a }).copysign(x))
}
