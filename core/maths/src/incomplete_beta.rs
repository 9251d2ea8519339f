//! The regularised incomplete beta function and its derivatives.
//!
//! Formulas are those of the NIST Digital Library of Mathematical Functions (DLMF): the continued
//! fraction 8.17.22 for `x` below the mean, the symmetry 8.17.4 above it, and the power series
//! 8.17.7 where the symmetry would lose digits, the normal limit 8.18.9 for large parameters, and the gamma
//! distribution where one parameter is much greater than the square of the other. The factor of the fraction is taken about the mean,
//! as in DiDonato and Morris, ACM Transactions on Mathematical Software 18 (1992), algorithm 708.
//!
//! Derivatives in `a` and `b` are those of the same formulas, by power series ([`Jet`]) along lines:
//! a mixed derivative is a combination of derivatives along diagonals.

use crate::gamma::lgamma_1p;
use crate::incomplete_gamma::{log_defect, stirling};
use crate::jet::Jet;
use crate::{
    Arith, Float, Plain, digamma, erfc, exp, expm1, gammainc, gammaincc, lgamma, log, log1p,
    polygamma, pow,
};
use std::f64::consts::PI;

/// The highest total order of a derivative in `a` and `b`.
pub const BETA_ORDERS: usize = 3;

/// The factor of the order in `b` in the order of [`betainc_dab`].
pub const BETA_ORDER_STEP: usize = 1024;

/// The number of terms of the continued fraction above which there is no result.
///
/// Near the mean they are about the square root of the smaller parameter.
const MOST_TERMS: i32 = 100_000;

/// Parameters from which on the function is the normal limit with its first correction.
const LARGE: f64 = 1e10;

/// Below this parameter, derivatives are those of the difference of the function from 1.
const SMALL: f64 = 0.25;

/// Returns the regularised incomplete beta function `I(x; a, b)`.
///
/// The relative error is 3e-14 for results above 1e-30, and 2e-13 for the least results. Parameters
/// below 0, and `x` outside of 0 to 1, give NaN.
#[inline(always)]
pub fn betainc<A: Arith, T: Float>(a: T, b: T, x: T) -> T {
    T::of(value(a.wide(), b.wide(), x.wide()))
}

/// Returns the derivative of [`betainc`] of order `i` in `a` and `j` in `b`, for the order `i + 1024 j`.
///
/// The order is rounded to an integer. A total order above [`BETA_ORDERS`] gives NaN. The relative
/// error is 2e-13 for the total order 1, and grows tenfold with each order; near a root it is absolute.
/// With both parameters above 1e13, an `x` near the mean gives NaN, because the fraction has too many terms; and so
/// does a parameter above 1e100.
#[inline(always)]
pub fn betainc_dab<A: Arith, T: Float>(a: T, b: T, x: T, order: T) -> T {
    T::of(mixed(a.wide(), b.wide(), x.wide(), order.wide(), along))
}

/// Returns the derivative in `a` and `b` of the slope of [`betainc`] in `x`,
/// `x^(a - 1) (1 - x)^(b - 1) / B(a, b)`.
///
/// Orders are those of [`betainc_dab`], and so are the errors, except for a parameter below 1e-3: there
/// the derivatives of order 2 and 3 have at least 8 and 5 digits.
#[inline(always)]
pub fn beta_density<A: Arith, T: Float>(a: T, b: T, x: T, order: T) -> T {
    T::of(mixed(
        a.wide(),
        b.wide(),
        x.wide(),
        order.wide(),
        density_along,
    ))
}

/// A derivative of an order along a line `(a + u t, b + v t)`.
type Along = fn(a: f64, b: f64, x: f64, line: [f64; 2], order: usize) -> f64;

#[inline(never)]
fn mixed(a: f64, b: f64, x: f64, order: f64, of: Along) -> f64 {
    let order = order.round_ties_even();
    if !(0.0..1e6).contains(&order) {
        return f64::NAN;
    }
    let (i, j) = (
        order as usize % BETA_ORDER_STEP,
        order as usize / BETA_ORDER_STEP,
    );
    let of = |line: [f64; 2], order: usize| of(a, b, x, line, order);
    const ACROSS: [f64; 2] = [1.0, 0.0];
    const UP: [f64; 2] = [0.0, 1.0];
    let diagonals = |n: usize| (of([1.0, 1.0], n), of([1.0, -1.0], n));
    match (i, j) {
        (_, 0) if i <= BETA_ORDERS => of(ACROSS, i),
        (0, _) if j <= BETA_ORDERS => of(UP, j),
        (1, 1) => {
            let (rising, falling) = diagonals(2);
            0.25 * (rising - falling)
        }
        // The third derivatives along the diagonals are aaa + 3 aab + 3 abb + bbb, and with the
        // signs + - + -.
        (2, 1) => {
            let (rising, falling) = diagonals(3);
            (rising - falling - 2.0 * of(UP, 3)) / 6.0
        }
        (1, 2) => {
            let (rising, falling) = diagonals(3);
            (rising + falling - 2.0 * of(ACROSS, 3)) / 6.0
        }
        _ => f64::NAN,
    }
}

fn is_valid(a: f64, b: f64, x: f64) -> bool {
    a >= 0.0 && b >= 0.0 && (0.0..=1.0).contains(&x)
}

/// Returns the value at the ends of the domain and outside of it.
fn edge(a: f64, b: f64, x: f64) -> Option<f64> {
    let both_are = |y: f64| a == y && b == y;
    if !is_valid(a, b, x) || both_are(0.0) || both_are(f64::INFINITY) {
        Some(f64::NAN)
    } else if x == 0.0 || x == 1.0 {
        Some(x)
    } else if a == 0.0 || b == f64::INFINITY {
        Some(1.0)
    } else if b == 0.0 || a == f64::INFINITY {
        Some(0.0)
    } else {
        None
    }
}

/// Returns whether a parameter is so much greater than the other that the function is one of the gamma distribution.
fn is_far(greater: f64, other: f64) -> bool {
    let other = other.max(1.0);
    greater >= 1e32 * other * other
}

#[inline(never)]
fn value(a: f64, b: f64, x: f64) -> f64 {
    if let Some(y) = edge(a, b, x) {
        return y;
    }
    if is_far(b, a) {
        return gammainc::<Plain, f64>(a, -b * log1p::<Plain, f64>(-x));
    }
    if is_far(a, b) {
        return gammaincc::<Plain, f64>(b, -a * log::<Plain, f64>(x));
    }
    let point = Point::<1>::new(a, b, x, [0.0, 0.0]);
    if a.min(b) >= LARGE {
        return point.normal_limit();
    }
    if point.is_below_mean() {
        return point.fraction().value();
    }
    let point = point.mirrored();
    let rest = point.fraction().value();
    if rest > 0.9 && point.a.value() < 1.0 {
        point.small_rest().value()
    } else {
        1.0 - rest
    }
}

fn along(a: f64, b: f64, x: f64, line: [f64; 2], order: usize) -> f64 {
    if order == 0 {
        return value(a, b, x);
    }
    if let Some(y) = edge(a, b, x) {
        // At a = 0 and b = 0, the limits of the derivatives are not known.
        let is_known = x == 0.0 || x == 1.0 || (a > 0.0 && b > 0.0);
        return if is_known { 0.0 * y } else { f64::NAN };
    }
    // The square of x may underflow beside the parameter.
    if a.max(b) > 1e100 {
        return f64::NAN;
    }
    fn of<const K: usize>(a: f64, b: f64, x: f64, line: [f64; 2], order: usize) -> f64 {
        let point = Point::<K>::new(a, b, x, line);
        let (point, sign) = match point.is_below_mean() {
            true => (point, 1.0),
            false => (point.mirrored(), -1.0),
        };
        // A small parameter is a factor of the difference from 1, not of the function.
        if point.a.value() < SMALL.min(point.b.value()) {
            -sign * point.small_rest().derivative(order)
        } else {
            sign * point.fraction().derivative(order)
        }
    }
    if order == 1 {
        of::<2>(a, b, x, line, order)
    } else {
        of::<4>(a, b, x, line, order)
    }
}

fn density_along(a: f64, b: f64, x: f64, line: [f64; 2], order: usize) -> f64 {
    if !is_valid(a, b, x) {
        return f64::NAN;
    }
    if a.is_infinite() || b.is_infinite() || a == 0.0 || b == 0.0 {
        return if a == b { f64::NAN } else { 0.0 };
    }
    if x == 0.0 || x == 1.0 {
        // The limits of t^(p - 1) log(t)^order q, where t is the distance from the end.
        let (p, q, slope) = if x == 0.0 {
            (a, b, line[0])
        } else {
            (b, a, line[1])
        };
        let diverges = if slope == 0.0 || order == 0 {
            p < 1.0
        } else {
            p <= 1.0
        };
        let sign = if slope != 0.0 && order % 2 == 1 {
            -1.0
        } else {
            1.0
        };
        return match (diverges, order) {
            (true, _) => sign * f64::INFINITY,
            (false, 0) if p == 1.0 => q,
            (false, 1) if p == 1.0 => 1.0 * line[if x == 0.0 { 1 } else { 0 }],
            _ => 0.0,
        };
    }
    fn of<const K: usize>(a: f64, b: f64, x: f64, line: [f64; 2], order: usize) -> f64 {
        let point = Point::<K>::new(a, b, x, line);
        let point = if point.is_below_mean() {
            point
        } else {
            point.mirrored()
        };
        point.density().derivative(order)
    }
    match order {
        0 => of::<1>(a, b, x, line, order),
        1 => of::<2>(a, b, x, line, order),
        _ => of::<4>(a, b, x, line, order),
    }
}

/// Parameters along a line, with the argument and its complement.
struct Point<const K: usize> {
    a: Jet<K>,
    b: Jet<K>,
    x: f64,
    y: f64,
    /// `a - (a + b) x`, which is positive below the mean.
    distance: Jet<K>,
}

impl<const K: usize> Point<K> {
    fn new(a: f64, b: f64, x: f64, line: [f64; 2]) -> Point<K> {
        // The sum and the product have two parts, because their difference may be small.
        let sum = a + b;
        let rounding = if a > b { b - (sum - a) } else { a - (sum - b) };
        let distance = (-sum).mul_add(x, a) - rounding * x;
        Point {
            a: Jet::line(a, line[0]),
            b: Jet::line(b, line[1]),
            x,
            y: 1.0 - x,
            distance: Jet::line(distance, line[0] - (line[0] + line[1]) * x),
        }
    }

    /// Returns whether the continued fraction converges fast.
    fn is_below_mean(&self) -> bool {
        let (a, b) = (self.a.value(), self.b.value());
        self.x <= (a + 1.0) / (a + b + 2.0)
    }

    /// Returns the point of the function `1 - I`, with the parameters exchanged.
    fn mirrored(&self) -> Point<K> {
        Point {
            a: self.b,
            b: self.a,
            x: self.y,
            y: self.x,
            distance: self.distance.scale(-1.0),
        }
    }

    /// Returns `x^a y^b / B(a, b)` over a continued fraction, the even part of DLMF 8.17.22.
    ///
    /// Its terms have the distance from the mean, and not the difference of `x` from 1.
    fn fraction(&self) -> Jet<K> {
        // The modified method of Lentz gives the value, and the number of terms.
        const TINY: f64 = 1e-300;
        let point = self.without_line();
        let mut value = point.denominator(0.0).value();
        let (mut c, mut d) = (value, 0.0);
        let mut n = 1;
        loop {
            if n == MOST_TERMS {
                return Jet::constant(f64::NAN);
            }
            let i = f64::from(n);
            let (top, b) = (point.numerator(i).value(), point.denominator(i).value());
            d = b + top * d;
            d = 1.0 / if d == 0.0 { TINY } else { d };
            c = b + top / c;
            c = if c == 0.0 { TINY } else { c };
            value *= c * d;
            if (c * d - 1.0).abs() <= 2e-16 {
                break;
            }
            n += 1;
        }
        let whole = if K == 1 {
            Jet::constant(value)
        } else {
            // The derivatives converge somewhat later, so begin behind the last term.
            let n = n + n / 2 + 10;
            let mut whole = self.denominator(f64::from(n));
            for i in (1..=n).rev() {
                let i = f64::from(i);
                whole = self
                    .denominator(i - 1.0)
                    .add(&self.numerator(i).div(&whole));
            }
            whole
        };
        self.power().mul(&self.a).div(&whole)
    }

    fn without_line(&self) -> Point<1> {
        Point {
            a: Jet([self.a.value()]),
            b: Jet([self.b.value()]),
            distance: Jet([self.distance.value()]),
            x: self.x,
            y: self.y,
        }
    }

    /// `(a + n - 1) (a + b + n - 1) n (b - n) x^2 / (a + 2 n - 1)^2`
    fn numerator(&self, n: f64) -> Jet<K> {
        let below = self.a.shift(2.0 * n - 1.0);
        let first = self.a.shift(n - 1.0).div(&below);
        let second = self.a.add(&self.b).shift(n - 1.0).div(&below);
        let rest = self.b.shift(-n).scale(n * self.x * self.x);
        first.mul(&second).mul(&rest)
    }

    /// `n + n (b - n) x / (a + 2 n - 1) + (a + n) / (a + 2 n + 1) (a - (a + b) x + 1 + n (1 + y))`
    fn denominator(&self, n: f64) -> Jet<K> {
        let near = self.distance.shift(1.0 + n * (1.0 + self.y));
        let near = self.a.shift(n).div(&self.a.shift(2.0 * n + 1.0)).mul(&near);
        if n == 0.0 {
            return near;
        }
        let far = self.b.shift(-n).scale(n * self.x);
        let far = far.div(&self.a.shift(2.0 * n - 1.0));
        near.add(&far).shift(n)
    }

    /// Returns the logarithms of the argument and of its complement, of which the smaller one is exact.
    fn logs(&self) -> [f64; 2] {
        [(self.x, self.y), (self.y, self.x)].map(|(x, y)| {
            if y < 0.5 {
                log1p::<Plain, f64>(-y)
            } else {
                log::<Plain, f64>(x)
            }
        })
    }

    /// Returns `a log(x_0 / x) + b log(y_0 / y)`, where `x_0 = a / (a + b)` is the mean.
    ///
    /// About the mean it has no linear part.
    fn deviance(&self) -> f64 {
        let (a, b) = (self.a.value(), self.b.value());
        let [log_x, log_y] = self.logs();
        let (e, f) = (-self.distance.value() / a, self.distance.value() / b);
        let near = |e: f64, log: f64, mean: f64| {
            if (-0.6..=1.5).contains(&e) {
                log_defect(e)
            } else {
                e - (log - mean)
            }
        };
        let mean_x = -log1p::<Plain, f64>(b / a);
        let mean_y = -log1p::<Plain, f64>(a / b);
        a * near(e, log_x, mean_x) + b * near(f, log_y, mean_y)
    }

    /// Returns the function for large parameters: DLMF 8.18.9 with one term of the sum.
    fn normal_limit(&self) -> f64 {
        let (a, b) = (self.a.value(), self.b.value());
        let (deviance, sum) = (self.deviance(), a + b);
        let (mean, rest) = (a / sum, b / sum);
        let (width, offset) = ((mean * rest).sqrt(), -self.distance.value() / sum);
        let eta = (2.0 * (deviance / sum)).sqrt().copysign(offset);
        let first = if eta.abs() < 1e-8 * width {
            (rest - mean) / (3.0 * width)
        } else {
            1.0 / eta - width / offset
        };
        let correction = exp::<Plain, f64>(-deviance) / (2.0 * PI * sum).sqrt() * first;
        let at = deviance.sqrt().copysign(-offset);
        (0.5 * erfc::<Plain, f64>(at) + correction).clamp(0.0, 1.0)
    }

    /// Returns `x^a y^b / (a B(a, b))`.
    fn power(&self) -> Jet<K> {
        let (a, b, x, y) = (self.a.value(), self.b.value(), self.x, self.y);
        let [log_x, log_y] = self.logs();
        let x_to_a = if y < 0.5 {
            exp::<Plain, f64>(a * log_x)
        } else {
            pow::<Plain, f64>(x, a)
        };
        let value = if a >= 8.0 && b >= 8.0 {
            let sum = a + b;
            let rest = stirling(a) + stirling(b) - stirling(sum);
            let size = (b / (sum * a) / (2.0 * PI)).sqrt();
            exp::<Plain, f64>(-self.deviance() - rest) * size
        } else {
            // Halves underflow later than the whole.
            let half = exp::<Plain, f64>(0.5 * b * log_y);
            let (power, beta) = if a < 8.0 && b >= 8.0 {
                // gamma(a + b) / gamma(b) is near b^a.
                let log = log_ratio(a, b);
                (pow::<Plain, f64>(x * b, a), log - lgamma_1p::<Plain>(a))
            } else if b < 8.0 && a >= 8.0 {
                let log = log_ratio(b, a) + b * log::<Plain, f64>(a);
                // gamma(b) is gamma(b + 1) / b.
                let log = log - lgamma_1p::<Plain>(b);
                (x_to_a * (b / a), log)
            } else {
                let log = lgamma_1p::<Plain>(a + b) - lgamma_1p::<Plain>(a) - lgamma_1p::<Plain>(b);
                (x_to_a * (b / (a + b)), log)
            };
            (half * power) * exp::<Plain, f64>(beta) * half
        };
        if K == 1 {
            return Jet::constant(value);
        }
        // Where b or a + b is small, it is a factor, so that the exponent has no pole.
        let sum = self.a.add(&self.b);
        let gammas = lgamma_jet(&self.a.shift(1.0)).add(&lgamma_jet(&self.b.shift(1.0)));
        let logs = self.a.scale(log_x).add(&self.b.scale(log_y));
        let exponent = logs.add(&lgamma_jet(&sum.shift(1.0))).sub(&gammas);
        let factor = self.b.scale(1.0 / b).div(&sum.scale(1.0 / (a + b)));
        exponent.exp_with(value).mul(&factor)
    }

    /// Returns `x^(a - 1) y^(b - 1) / B(a, b)`.
    fn density(&self) -> Jet<K> {
        // The order of the factors avoids underflow where the result does not. The reciprocal of a denormal overflows.
        self.power().mul(&self.a).over(self.x).over(self.y)
    }

    /// Returns `1 - I` for a small `a`, by the series of `I` in powers of `x`.
    ///
    /// With `exp(e) = x^a / (a B(a, b))`, it is `-expm1(e)` and a sum that has the factor `a`.
    fn small_rest(&self) -> Jet<K> {
        let mut power = Jet::<K>::constant(1.0);
        let mut sum = Jet::constant(0.0);
        let mut n = 1.0;
        while n < 10_000.0 {
            power = power.mul(&self.b.scale(-1.0).shift(n)).scale(self.x / n);
            let term = power.div(&self.a.shift(n));
            sum = sum.add(&term);
            if term.is_below(1e-17, &sum) {
                break;
            }
            n += 1.0;
        }
        let log = self.a.scale(log::<Plain, f64>(self.x));
        let exponent = log.add(&self.log_growth()).sub(&self.lgamma_1p_of_a());
        let power = exponent.exp();
        let main = power.with_value(expm1::<Plain, f64>(exponent.value()));
        main.add(&power.mul(&self.a.mul(&sum))).scale(-1.0)
    }

    /// Returns the logarithm of `gamma(a + 1)`.
    fn lgamma_1p_of_a(&self) -> Jet<K> {
        let value = lgamma_1p::<Plain>(self.a.value());
        lgamma_jet(&self.a.shift(1.0)).with_value(value)
    }

    /// Returns the logarithm of `gamma(a + b) / gamma(b)`, which is small for small `a`.
    fn log_growth(&self) -> Jet<K> {
        let (a, b) = (self.a.value(), self.b.value());
        if a < 0.02 * b {
            // The power series in a
            let mut growth = Jet::constant(0.0);
            let mut power = Jet::constant(1.0);
            for k in 1..10 {
                power = power.mul(&self.a).scale(1.0 / k as f64);
                let slopes = std::array::from_fn(|i| slope_of_lgamma(b, k + i));
                growth = growth.add(&power.mul(&self.b.compose(&slopes)));
            }
            return growth;
        }
        let growth = lgamma_jet(&self.a.add(&self.b)).sub(&lgamma_jet(&self.b));
        growth.with_value(if b >= 8.0 {
            log_ratio(a, b) + a * log::<Plain, f64>(b)
        } else {
            lgamma::<Plain, f64>(a + b) - lgamma::<Plain, f64>(b)
        })
    }
}

/// Returns the logarithm of `gamma(a + b) / (gamma(b) b^a)` for `b >= 8`, which is small for small `a`.
fn log_ratio(a: f64, b: f64) -> f64 {
    let u = a / b;
    // (a + b - 1/2) log(1 + a / b) - a, without cancellation
    let main = if u < 1.5 {
        a * u - (a + b) * log_defect(u)
    } else {
        (a + b) * log1p::<Plain, f64>(u) - a
    };
    main - 0.5 * log1p::<Plain, f64>(u) + (stirling(a + b) - stirling(b))
}

/// Returns `log gamma(z)` without its value.
fn lgamma_jet<const K: usize>(z: &Jet<K>) -> Jet<K> {
    let slope = |k: usize| {
        if k == 0 {
            0.0
        } else {
            slope_of_lgamma(z.value(), k)
        }
    };
    z.compose(&std::array::from_fn(slope))
}

/// Returns the derivative of `lgamma` of an order of at least 1.
fn slope_of_lgamma(z: f64, order: usize) -> f64 {
    match order {
        1 => digamma::<Plain, f64>(z),
        _ => polygamma::<Plain, f64>(z, (order - 1) as f64),
    }
}
