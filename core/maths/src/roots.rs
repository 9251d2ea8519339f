//! `cbrt` and `hypot`, computed in double precision.

use crate::float::Real;
use crate::log::parts;
use crate::{Arith, Float};

/// Returns the cube root, to 1 ulp.
///
/// A polynomial gives 8 bits, and two steps of Halley's method the others.
#[inline(always)]
pub fn cbrt<A: Arith, T: Float>(x: T) -> T {
    let x = x.wide();
    let a = x.abs();
    // a = 2^(3 n) m with 0.35 < m < 2.83
    let (k, m) = parts(a);
    let magic = f64::magic_power(0);
    let shifted = k.fma::<A>(1.0 / 3.0, magic);
    let left = k - 3.0 * (shifted - magic);
    let m = if left > 0.0 { m + m } else { m };
    let m = if left < 0.0 { 0.5 * m } else { m };
    let y = m.polynomial::<A, 5>([
        -0.013038444574827902,
        0.11181738441248237,
        -0.3845527528681874,
        0.8244682058111419,
        0.4623181898180514,
    ]);
    let cube = y * y * y;
    let y = y * (cube + 2.0 * m) / (2.0 * cube + m);
    // In the second step, the distance from the root is computed exactly.
    let (square, square_rest) = y.two_product::<A>(y);
    let (cube, cube_rest) = square.two_product::<A>(y);
    let distance = (m - cube) - square_rest.fma::<A>(y, cube_rest);
    let y = y + y * distance / (2.0 * cube + m);
    let y = y * f64::power_of_two(shifted.bits());
    let ends = (a == 0.0) | (a == f64::INFINITY) | a.is_nan();
    T::of(if ends { x } else { y.copysign(x) })
}

/// Returns `sqrt(x^2 + y^2)` without overflow, to 1 ulp.
#[inline(always)]
pub fn hypot<A: Arith, T: Float>(x: T, y: T) -> T {
    let (a, b) = (x.wide().abs(), y.wide().abs());
    let (least, most) = if a < b { (a, b) } else { (b, a) };
    let (scale, back) = if most > 1e150 {
        (
            f64::from_bits((1023 - 600) << 52),
            f64::from_bits((1023 + 600) << 52),
        )
    } else if most < 1e-140 {
        (
            f64::from_bits((1023 + 600) << 52),
            f64::from_bits((1023 - 600) << 52),
        )
    } else {
        (1.0, 1.0)
    };
    let (least, most) = (least * scale, most * scale);
    let z = most.fma::<A>(most, least * least).sqrt() * back;
    let infinite = (a == f64::INFINITY) | (b == f64::INFINITY);
    T::of(if infinite { f64::INFINITY } else { z })
}

/// Returns `log(e^x + e^y)` without overflow, to 3 ulp of the greater operand.
#[inline(always)]
pub fn logaddexp<A: Arith, T: Float>(x: T, y: T) -> T {
    let (x, y) = (x.wide(), y.wide());
    let most = if (x > y) | x.is_nan() { x } else { y };
    let difference = (x - y).abs();
    // log(1 + e^-d) as softplus(-d)
    let z = most + crate::softplus::<A, f64>(-difference);
    // The difference of infinities of one sign is NaN.
    T::of(if x == y {
        x + std::f64::consts::LN_2
    } else {
        z
    })
}
