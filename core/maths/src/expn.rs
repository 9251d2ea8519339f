//! The generalised exponential integrals.
//!
//! Formulas are those of the NIST Digital Library of Mathematical Functions (DLMF): the power series
//! 8.19.8 up to 1, and the continued fraction 8.19.17 above. Negative orders take the recurrence
//! 8.19.12.

use crate::integrals::EULER;
use crate::{Arith, Float, Plain, exp, log};

/// Returns the integral of `exp(-x t) t^-n` over `t` from 1 on, for an order `n` that is rounded to an
/// integer, to 20 ulp.
///
/// `x < 0` gives NaN.
#[inline(always)]
pub fn expn<A: Arith, T: Float>(x: T, order: T) -> T {
    T::of(of_order(x.wide(), order.wide()))
}

#[inline(never)]
fn of_order(x: f64, order: f64) -> f64 {
    let n = order.round_ties_even();
    if x.is_nan() || n.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == f64::INFINITY || n == f64::INFINITY {
        return 0.0;
    }
    if x == 0.0 {
        return if n > 1.0 {
            1.0 / (n - 1.0)
        } else {
            f64::INFINITY
        };
    }
    if n > 0.0 {
        return if x > 1.0 {
            fraction(x, n)
        } else {
            series(x, n)
        };
    }
    // The orders 0, -1, .. in turn. Beyond the limit all of them are infinite.
    let size = exp::<Plain, f64>(-x);
    let mut y = size / x;
    let mut k = 1.0;
    while k <= -n && y < f64::INFINITY && k < 1e5 {
        y = (size + k * y) / x;
        k += 1.0;
    }
    if k <= -n { f64::INFINITY } else { y }
}

/// Returns the function for `0 < x <= 1` and `n >= 1`.
fn series(x: f64, n: f64) -> f64 {
    let mut power = 1.0;
    let mut sum = 0.0;
    let mut m = 0.0;
    while m < 400.0 {
        let below = m - (n - 1.0);
        let term = if below == 0.0 {
            // digamma(n) is the sum of 1 / k below n, less Euler's constant.
            let mut digamma = -EULER;
            let mut k = 1.0;
            while k < n {
                digamma += 1.0 / k;
                k += 1.0;
            }
            power * (digamma - log::<Plain, f64>(x))
        } else {
            -power / below
        };
        sum += term;
        if m > 0.0 && power.abs() <= 1e-18 * sum.abs() {
            break;
        }
        m += 1.0;
        power *= -x / m;
    }
    sum
}

/// Returns the function for `x > 1` and `n >= 1`, by the method of Lentz.
fn fraction(x: f64, n: f64) -> f64 {
    let mut b = x + n;
    let mut c = 1e300;
    let mut d = 1.0 / b;
    let mut y = d;
    let mut i = 1.0;
    while i < 1000.0 {
        let top = -i * (n - 1.0 + i);
        b += 2.0;
        d = 1.0 / (top * d + b);
        c = b + top / c;
        y *= c * d;
        if (c * d - 1.0).abs() <= 2e-16 {
            break;
        }
        i += 1.0;
    }
    y * exp::<Plain, f64>(-x)
}
