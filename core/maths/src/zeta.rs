//! The Hurwitz zeta function and its derivatives in the exponent.

use crate::jet::Jet;
use crate::{Arith, Float, Plain, log, pow};

/// The highest order of a derivative in the exponent.
pub const ZETA_ORDERS: usize = 4;

/// Returns the Hurwitz zeta function, the sum of `(q + k)^-s` over `k >= 0`.
///
/// The relative error is 2e-15 for `q > 0`. As in SciPy, `s < 1` gives NaN, `s = 1` infinity, and so
/// do `q = 0, -1, ..`. Other `q < 0` need an integer `s`.
#[inline(always)]
pub fn zeta<A: Arith, T: Float>(s: T, q: T) -> T {
    T::of(of_order(s.wide(), q.wide(), 0.0))
}

/// Returns the derivative in `s` of [`zeta`] of an order, which is rounded to an integer.
///
/// The order 0 is the function. Negative orders, those above [`ZETA_ORDERS`], and `q < 0` give NaN.
#[inline(always)]
pub fn zeta_ds<A: Arith, T: Float>(s: T, q: T, order: T) -> T {
    T::of(of_order(s.wide(), q.wide(), order.wide()))
}

#[inline(never)]
fn of_order(s: f64, q: f64, order: f64) -> f64 {
    let order = order.round_ties_even();
    if !(0.0..=ZETA_ORDERS as f64).contains(&order) {
        return f64::NAN;
    }
    let order = order as usize;
    // At the pole, the derivatives alternate in sign.
    let pole = match order % 2 {
        0 => f64::INFINITY,
        _ => f64::NEG_INFINITY,
    };
    if s.is_nan() || q.is_nan() || s < 1.0 {
        return f64::NAN;
    }
    if s == 1.0 {
        return pole;
    }
    let is_whole = q == q.floor();
    if q <= 0.0 && order > 0 {
        return f64::NAN;
    }
    if q <= 0.0 && is_whole {
        return f64::INFINITY;
    }
    if s == f64::INFINITY || q == f64::INFINITY {
        return match order {
            0 if q == 1.0 => 1.0,
            0 if q < 1.0 => f64::INFINITY,
            _ if q > 1.0 => 0.0,
            _ => f64::NAN,
        };
    }
    if q > 0.0 {
        return match order {
            0 => positive::<1>(s, q).value(),
            1 => positive::<2>(s, q).derivative(1),
            _ => positive::<5>(s, q).derivative(order),
        };
    }
    if s != s.floor() {
        return f64::NAN;
    }
    // The terms at q, q + 1, .. below 0 are those at 1 - r, 2 - r, .. up to a sign.
    let r = q - q.floor();
    let below = positive::<1>(s, 1.0 - r).value() - positive::<1>(s, 1.0 - q).value();
    let is_odd = 0.5 * s != (0.5 * s).floor();
    positive::<1>(s, r).value() + if is_odd { -below } else { below }
}

/// `B(2 j) / (2 j)!`, where `B` are the numbers of Bernoulli.
pub const BERNOULLI: [f64; 9] = [
    0.08333333333333333,
    -0.001388888888888889,
    3.306878306878307e-05,
    -8.267195767195768e-07,
    2.08767569878681e-08,
    -5.284190138687493e-10,
    1.3382536530684679e-11,
    -3.3896802963225827e-13,
    8.586062056277845e-15,
];

/// Returns the function of `s + t` for `q > 0`, by the formula of Euler and Maclaurin (DLMF 25.11.5).
fn positive<const K: usize>(s: f64, q: f64) -> Jet<K> {
    let power = |y: f64, lift: f64| {
        let slope = -log::<Plain, f64>(y);
        let mut next = pow::<Plain, f64>(y, lift - s);
        // A sum with products of 0 would be NaN where the power is infinite.
        Jet::<K>(std::array::from_fn(|k| {
            let this = next;
            next = slope * next / (k + 1) as f64;
            this
        }))
    };
    let s_jet = Jet::<K>::line(s, 1.0);
    let mut sum = Jet::constant(0.0);
    let mut y = q;
    for _ in 0..12 {
        sum = sum.add(&power(y, 0.0));
        y += 1.0;
    }
    let last = power(y, 0.0);
    let integral = power(y, 1.0).div(&s_jet.shift(-1.0));
    if last.value() == 0.0 {
        // The factors below may be infinite.
        return sum.add(&integral);
    }
    let w = 1.0 / y;
    let mut factor = last.mul(&s_jet).scale(w);
    let mut rest = last.scale(0.5);
    for (i, bernoulli) in BERNOULLI.iter().enumerate() {
        rest = rest.add(&factor.scale(*bernoulli));
        let j = 2.0 * i as f64;
        let next = s_jet.shift(j + 1.0).mul(&s_jet.shift(j + 2.0));
        factor = factor.mul(&next).scale(w * w);
    }
    sum.add(&rest.add(&integral))
}
