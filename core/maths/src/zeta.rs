//! The Hurwitz zeta function and its derivatives in the exponent.

use crate::float::Real;
use crate::jet::Jet;
use crate::pow::{short_exp2, short_log2};
use crate::{Arith, Float, Plain, log, pow};

/// The highest order of a derivative in the exponent.
pub const ZETA_ORDERS: usize = 4;

/// Returns the Hurwitz zeta function, the sum of `(q + k)^-s` over `k >= 0`.
///
/// The relative error is 2e-15 (`f32`: 0.53 ulp) for `q > 0`. The terms at `q < 0` and odd `s` cancel,
/// and the error is 1e-14 (`f32`: 1e-9) of the greatest one.
///
/// As in SciPy, `s < 1` gives NaN, `s = 1` infinity, and so do `q = 0, -1, ..`. Other `q < 0` need an
/// integer `s`.
#[inline(always)]
pub fn zeta<A: Arith, T: Float>(s: T, q: T) -> T {
    T::zeta::<A>(s, q)
}

/// The zeta function, which `f32` and `f64` compute in different ways.
pub trait Zeta: Real {
    /// Returns the function at `s` and `q`.
    fn zeta<A: Arith>(s: Self, q: Self) -> Self;
}

impl Zeta for f64 {
    #[inline(always)]
    fn zeta<A: Arith>(s: f64, q: f64) -> f64 {
        of_order(s, q, 0.0)
    }
}

impl Zeta for f32 {
    #[inline(always)]
    fn zeta<A: Arith>(s: f32, q: f32) -> f32 {
        let y = short_zeta::<A>(f64::from(s), f64::from(q), 0.0) as f32;
        let y = if s == 1.0 { f32::INFINITY } else { y };
        if (s >= 1.0) & !q.is_nan() {
            y
        } else {
            f32::NAN
        }
    }
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

/// Returns the function for `s > 1` times `2^lift`, with a few more digits than an `f32`.
///
/// It has no branches. `s` and `q` are single precision numbers.
#[inline(always)]
pub(crate) fn short_zeta<A: Arith>(s: f64, q: f64, lift: f64) -> f64 {
    let s = s.at_most(f64::from(f32::MAX));
    let (floor, terms) = (q.floor(), TERMS as f64);
    let negative = q < 0.0;
    // The terms at q, q + 1, .. below 0 are those at `below`, `below + 1`, .. up to a sign.
    let (above, below) = (if negative { q - floor } else { q }, floor + 1.0 - q);
    let (n_below, many) = (-floor, -floor > terms);
    let above_sum = first_terms::<A>(s, above, lift, terms);
    let above_sum = above_sum + other_terms::<A>(s, above + terms, lift);
    let near = first_terms::<A>(s, below, lift, n_below);
    let far = near + other_terms::<A>(s, below + terms, lift);
    let beyond = other_terms::<A>(s, below + n_below.at_least(terms), lift);
    let (below_sum, beyond) = if many { (far, beyond) } else { (near, 0.0) };
    // Equal sums of both sides cancel before the small one is added.
    let is_odd = 0.5 * s != (0.5 * s).floor();
    let both = if is_odd {
        (above_sum - below_sum) + beyond
    } else {
        (above_sum + below_sum) - beyond
    };
    let both = if s == s.floor() { both } else { f64::NAN };
    let y = if negative { both } else { above_sum };
    let y = if (q <= 0.0) & (q == floor) {
        f64::INFINITY
    } else {
        y
    };
    if q == f64::INFINITY { 0.0 } else { y }
}

/// The number of terms that [`short_zeta`] sums one by one.
const TERMS: usize = 3;

/// Returns the sum of `2^lift (y + k)^-s` over `k` below [`TERMS`] and `end`.
#[inline(always)]
fn first_terms<A: Arith>(s: f64, y: f64, lift: f64, end: f64) -> f64 {
    let mut sum = 0.0;
    let mut i = 0;
    while i < TERMS {
        let k = i as f64;
        let exponent = (-s).fma::<A>(short_log2::<A>(y + k), lift);
        let term = short_exp2::<A>(exponent);
        sum += if k < end { term } else { 0.0 };
        i += 1;
    }
    sum
}

/// Returns the sum of `2^lift (y + k)^-s` over `k >= 0`, for `y >= TERMS`, as [`positive`] does.
#[inline(always)]
fn other_terms<A: Arith>(s: f64, y: f64, lift: f64) -> f64 {
    const LAST: usize = 6;
    let first = short_exp2::<A>((-s).fma::<A>(short_log2::<A>(y), lift));
    let w = 1.0 / y;
    let w2 = w * w;
    let mut series = BERNOULLI[LAST];
    let mut i = LAST;
    while i > 0 {
        let j = s + (2 * i) as f64;
        series = series.fma::<A>((j - 1.0) * j * w2, BERNOULLI[i - 1]);
        i -= 1;
    }
    let rest = first * series.fma::<A>(s * w, 0.5);
    // Where the first term vanishes, its factor may be infinite.
    let rest = if first < 1e-90 { 0.0 } else { rest };
    first * y / (s - 1.0) + rest
}
