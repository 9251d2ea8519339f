//! The regularised incomplete gamma functions and their derivatives in the first argument.
//!
//! The functions loop until they converge, so they are compiled once, in plain double precision,
//! and not for each level. Only the values in single precision have formulas of a fixed length, in
//! `short_gamma`. Formulas are those of the NIST Digital Library of Mathematical Functions
//! (DLMF):
//!
//! | where | formula |
//! | --- | --- |
//! | `x <= a`, and `x < 1.5` | the series 8.7.1 of the lower function |
//! | `x > a` | the continued fraction 8.9.2 of the upper function |
//! | `a < 1`, `x < 1.5`, the upper function | 8.7.3, without the difference of two numbers near 1 |
//! | `a >= 10000` | the uniform expansion 8.12.3 (N. M. Temme) |
//!
//! Derivatives in `a` are those of the same formulas, by power series ([`Jet`]).

use crate::float::Real;
use crate::gamma::lgamma_1p;
use crate::jet::Jet;
use crate::short_gamma::lower_and_upper;
use crate::{Arith, Float, Plain, digamma, erfc, exp, expm1, log, polygamma, pow};
use std::f64::consts::PI;

/// The highest order of a derivative in `a`.
pub const GAMMA_ORDERS: usize = 4;

/// From this `a` on, the uniform expansion is used.
const LARGE: f64 = 1e4;

/// Returns the regularised lower incomplete gamma function `P(a, x)`.
///
/// The relative error is 3e-14 for results above 1e-30, and 3e-13 for the least results. The error of
/// `f32` is 0.8 ulp. `a < 0` and `x < 0` give NaN, and `P(0, x)` is 1 for `x > 0`.
#[inline(always)]
pub fn gammainc<A: Arith, T: Float>(a: T, x: T) -> T {
    T::gammainc::<A>(a, x)
}

/// Returns the regularised upper incomplete gamma function `Q(a, x) = 1 - P(a, x)`.
///
/// The error is that of [`gammainc`].
#[inline(always)]
pub fn gammaincc<A: Arith, T: Float>(a: T, x: T) -> T {
    T::gammaincc::<A>(a, x)
}

/// The incomplete gamma functions, which `f32` and `f64` compute in different ways.
pub trait IncompleteGamma: Real {
    /// Returns `P(a, x)`.
    fn gammainc<A: Arith>(a: Self, x: Self) -> Self;
    /// Returns `Q(a, x)`.
    fn gammaincc<A: Arith>(a: Self, x: Self) -> Self;
}

impl IncompleteGamma for f64 {
    #[inline(always)]
    fn gammainc<A: Arith>(a: f64, x: f64) -> f64 {
        both(a, x).0
    }
    #[inline(always)]
    fn gammaincc<A: Arith>(a: f64, x: f64) -> f64 {
        both(a, x).1
    }
}

impl IncompleteGamma for f32 {
    #[inline(always)]
    fn gammainc<A: Arith>(a: f32, x: f32) -> f32 {
        lower_and_upper::<A>(f64::from(a), f64::from(x)).0 as f32
    }
    #[inline(always)]
    fn gammaincc<A: Arith>(a: f32, x: f32) -> f32 {
        lower_and_upper::<A>(f64::from(a), f64::from(x)).1 as f32
    }
}

/// Returns the derivative in `a` of `P(a, x)` of an order, which is rounded to an integer.
///
/// The order 0 is `P(a, x)`. Negative orders and those above [`GAMMA_ORDERS`] give NaN.
#[inline(always)]
pub fn gammainc_da<A: Arith, T: Float>(a: T, x: T, order: T) -> T {
    T::of(derivative(a.wide(), x.wide(), order.wide()))
}

/// Returns the derivative in `a` of `x^(a - 1) exp(-x) / gamma(a)`, the slope of `P(a, x)` in `x`.
///
/// Orders are those of [`gammainc_da`].
#[inline(always)]
pub fn gamma_density<A: Arith, T: Float>(a: T, x: T, order: T) -> T {
    T::of(density(a.wide(), x.wide(), order.wide()))
}

/// Returns `P(a, x)` and `Q(a, x)`.
#[inline(never)]
fn both(a: f64, x: f64) -> (f64, f64) {
    if let Some(lower) = edge(a, x) {
        return (lower, 1.0 - lower);
    }
    if a < 1.0 && x < 1.5 {
        return (series::<1>(a, x).value(), small_upper(a, x));
    }
    match part::<1>(a, x) {
        Part::Lower(lower) => (lower.value(), 1.0 - lower.value()),
        Part::Upper(upper) => (1.0 - upper.value(), upper.value()),
    }
}

#[inline(never)]
fn derivative(a: f64, x: f64, order: f64) -> f64 {
    let order = order.round_ties_even();
    if !(0.0..=GAMMA_ORDERS as f64).contains(&order) {
        return f64::NAN;
    }
    let order = order as usize;
    if order == 0 {
        return both(a, x).0;
    }
    if let Some(lower) = edge(a, x) {
        // At a = 0, x > 0 the derivative is that of the series from the right.
        return match a == 0.0 && x > 0.0 && x < f64::INFINITY {
            true => of_order(0.0, x, order),
            false => 0.0 * lower,
        };
    }
    of_order(a, x, order)
}

fn of_order(a: f64, x: f64, order: usize) -> f64 {
    let signed = |part: f64, is_upper: bool| if is_upper { -part } else { part };
    macro_rules! of {
        ($k:literal) => {
            match part::<$k>(a, x) {
                Part::Lower(y) => signed(y.derivative(order), false),
                Part::Upper(y) => signed(y.derivative(order), true),
            }
        };
    }
    if order == 1 { of!(2) } else { of!(5) }
}

/// Returns `P(a, x)` at the ends of the domain and outside of it.
fn edge(a: f64, x: f64) -> Option<f64> {
    let both_are = |y: f64| a == y && x == y;
    if a.is_nan() || x.is_nan() || a < 0.0 || x < 0.0 || both_are(0.0) || both_are(f64::INFINITY) {
        Some(f64::NAN)
    } else if x == 0.0 || a == f64::INFINITY {
        Some(0.0)
    } else if a == 0.0 || x == f64::INFINITY {
        Some(1.0)
    } else {
        None
    }
}

/// One of the two functions, whichever is not near 1.
enum Part<const K: usize> {
    Lower(Jet<K>),
    Upper(Jet<K>),
}

fn part<const K: usize>(a: f64, x: f64) -> Part<K> {
    if a >= LARGE {
        uniform(a, x)
    } else if x < 1.5 || x <= a {
        Part::Lower(series(a, x))
    } else {
        Part::Upper(fraction(a, x))
    }
}

/// Returns `P(a, x)` as `D (1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ..)`, `D = x^a exp(-x) / gamma(a + 1)`.
fn series<const K: usize>(a: f64, x: f64) -> Jet<K> {
    let mut term = Jet::<K>::constant(1.0);
    let mut sum = term;
    let mut n = 1.0;
    while n < 1e5 {
        term = term.scale(x).div(&Jet::line(a + n, 1.0));
        sum = sum.add(&term);
        if term.is_below(1e-17, &sum) {
            break;
        }
        n += 1.0;
    }
    power(a, x, 0.0).mul(&sum)
}

/// Returns `Q(a, x)` for `a < 1` and `x < 1.5`: `1 - x^a / gamma(a + 1)` and the rest of the series of
/// the lower function in powers of `-x`, which has the factor `a`.
fn small_upper(a: f64, x: f64) -> f64 {
    let exponent = a * log::<Plain, f64>(x) - lgamma_1p::<Plain>(a);
    let mut power = 1.0;
    let mut sum = 0.0;
    let mut n = 1.0;
    while n < 60.0 {
        power *= -x / n;
        let term = power / (a + n);
        sum += term;
        if term.abs() <= 1e-17 * sum.abs() {
            break;
        }
        n += 1.0;
    }
    -expm1::<Plain, f64>(exponent) - exp::<Plain, f64>(exponent) * (a * sum)
}

/// Returns `Q(a, x)` as `x^a exp(-x) / gamma(a)` over a continued fraction.
fn fraction<const K: usize>(a: f64, x: f64) -> Jet<K> {
    // The modified method of Lentz gives the value, and the number of terms.
    const TINY: f64 = 1e-300;
    // The fraction of a whole `a` ends, but its derivatives do not: their terms are counted beside it.
    let near = if K == 1 { a } else { a + 0.29 };
    let mut b = x + 1.0 - near;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / if b == 0.0 { TINY } else { b };
    let mut value = d;
    let mut n = 1;
    while n < 100_000 {
        let i = f64::from(n);
        let top = i * (near - i);
        b += 2.0;
        d = top * d + b;
        c = b + top / c;
        d = 1.0 / if d == 0.0 { TINY } else { d };
        c = if c == 0.0 { TINY } else { c };
        value *= d * c;
        if (d * c - 1.0).abs() <= 2e-16 {
            break;
        }
        n += 1;
    }
    let jet = if K == 1 {
        Jet::constant(value)
    } else {
        // The derivatives converge somewhat later, so begin behind the last term.
        let n = n + n / 2 + 10;
        let mut whole = Jet::<K>::line(x + 1.0 - a + 2.0 * f64::from(n), -1.0);
        for i in (1..=n).rev() {
            let i = f64::from(i);
            let top = Jet::line(i * (a - i), i);
            whole = Jet::line(x + 1.0 - a + 2.0 * (i - 1.0), -1.0).add(&top.div(&whole));
        }
        Jet::constant(1.0).div(&whole)
    };
    power(a, x, 0.0).mul(&jet).mul(&Jet::line(a, 1.0))
}

/// Returns `x^(a - less) exp(-x) / gamma(a + 1)`, where `less` is 0 or 1.
fn power<const K: usize>(a: f64, x: f64, less: f64) -> Jet<K> {
    let log_x = log::<Plain, f64>(x);
    let value = if a < 8.0 {
        // Halves of the exponential underflow later than the whole.
        let half = exp::<Plain, f64>(-0.5 * x);
        let gamma = exp::<Plain, f64>(-lgamma_1p::<Plain>(a));
        let scaled = half * pow::<Plain, f64>(x, a - less);
        if half == 0.0 {
            0.0
        } else {
            scaled * half * gamma
        }
    } else {
        let exponent = -a * defect(x, a) - stirling(a);
        let power = exp::<Plain, f64>(exponent) / (2.0 * PI * a).sqrt();
        if less == 0.0 { power } else { power / x }
    };
    let mut exponent: [f64; K] = std::array::from_fn(|k| match k {
        0 => 0.0,
        1 => -digamma::<Plain, f64>(a + 1.0),
        _ => -polygamma::<Plain, f64>(a + 1.0, (k - 1) as f64),
    });
    if K > 1 {
        exponent[1] += log_x;
    }
    Jet::<K>::line(0.0, 1.0).compose(&exponent).exp_with(value)
}

#[inline(never)]
fn density(a: f64, x: f64, order: f64) -> f64 {
    let order = order.round_ties_even();
    let has_order = (0.0..=GAMMA_ORDERS as f64).contains(&order);
    if a.is_nan() || x.is_nan() || a < 0.0 || x < 0.0 || !has_order {
        return f64::NAN;
    }
    if a.is_infinite() || x.is_infinite() {
        return if a == x { f64::NAN } else { 0.0 };
    }
    let order = order as usize;
    if x == 0.0 {
        // The limits of x^(a - 1) log(x)^order
        return match (a, order) {
            _ if a > 1.0 || a == 0.0 => 0.0,
            (1.0, 0) => 1.0,
            (_, order) if order % 2 == 0 => f64::INFINITY,
            _ => f64::NEG_INFINITY,
        };
    }
    match order {
        0 => a * power::<1>(a, x, 1.0).value(),
        1 => power::<2>(a, x, 1.0).mul(&Jet::line(a, 1.0)).derivative(1),
        _ => power::<5>(a, x, 1.0)
            .mul(&Jet::line(a, 1.0))
            .derivative(order),
    }
}

/// Returns `e - log(1 + e)` without cancellation, where `1 + e = x / a`.
fn defect(x: f64, a: f64) -> f64 {
    let e = (x - a) / a;
    if (-0.6..=1.5).contains(&e) {
        log_defect(e)
    } else {
        e - log::<Plain, f64>(x / a)
    }
}

/// Returns `e - log(1 + e)` without cancellation, for `-0.6 <= e <= 1.5`.
pub(crate) fn log_defect(e: f64) -> f64 {
    // log(1 + e) = 2 artanh(r), and e - 2 r = e r
    let r = e / (2.0 + e);
    let r2 = r * r;
    let mut power = r * r2;
    let mut sum = 0.0;
    let mut n = 3.0;
    while n < 90.0 {
        let term = power / n;
        sum += term;
        if term.abs() <= 1e-18 * sum.abs() {
            break;
        }
        power *= r2;
        n += 2.0;
    }
    e * r - 2.0 * sum
}

/// Returns `log gamma(z)` without the leading terms of Stirling's series, for `z >= 8` (DLMF 5.11.1).
pub(crate) fn stirling(z: f64) -> f64 {
    let w = 1.0 / (z * z);
    let late = 691.0 / 360360.0 - w * (1.0 / 156.0 - w * (3617.0 / 122400.0));
    let early = 1.0 / 1680.0 - w * (1.0 / 1188.0 - w * late);
    (1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w * early))) / z
}

/// Returns `P(a, x)` or `Q(a, x)` for large `a`, by its expansion in `1 / a`.
///
/// With `eta^2 / 2 = e - log(1 + e)`, `e = x / a - 1`, the upper function is
/// `erfc(eta sqrt(a / 2)) / 2 + exp(-a eta^2 / 2) / sqrt(2 pi a) (C0(eta) + C1(eta) / a + ..)`.
fn uniform<const K: usize>(a: f64, x: f64) -> Part<K> {
    let value = (x - a) / a;
    let is_upper = value > 0.0;
    let of_a = Jet::<K>::line(a, 1.0);
    // Beyond this both the result and its derivatives underflow, or are too small to count.
    if value <= -1.0 || a * defect(x, a) > 760.0 {
        let zero = Jet::constant(0.0);
        return if is_upper {
            Part::Upper(zero)
        } else {
            Part::Lower(zero)
        };
    }
    let e = Jet::constant(x).div(&of_a).with_value(value);
    let half_square = e.integral(defect(x, a), &e.div(&e.shift(1.0).with_value(x / a)));
    let eta = if value.abs() < 0.1 {
        e.polynomial(&ETA)
    } else {
        let root = half_square.scale(2.0).sqrt();
        if is_upper { root } else { root.scale(-1.0) }
    };
    let exponent = of_a.mul(&half_square).scale(-1.0);
    let gauss = exponent.exp();
    // The sign of eta is that of the function that is not near 1.
    let sign = if is_upper { 1.0 } else { -1.0 };
    let z = eta.mul(&of_a.scale(0.5).sqrt()).scale(sign);
    let slope = gauss.scale(-2.0 / PI.sqrt());
    let root = (-exponent.value()).sqrt();
    let main = z.integral(erfc::<Plain, f64>(root), &slope).scale(0.5);
    let mut rest = Jet::constant(0.0);
    for coefficients in CORRECTIONS.iter().rev() {
        rest = rest.div(&of_a).add(&eta.polynomial(coefficients));
    }
    let rest = rest.mul(&gauss).div(&of_a.scale(2.0 * PI).sqrt());
    if is_upper {
        Part::Upper(main.add(&rest))
    } else {
        Part::Lower(main.sub(&rest))
    }
}

/// Series of `eta` in `e`, the lowest power first.
pub const ETA: [f64; 17] = [
    0.0,
    1.0,
    -0.3333333333333333,
    0.19444444444444445,
    -0.13518518518518519,
    0.10270061728395062,
    -0.08233759553203998,
    0.06844705320399765,
    -0.05840173672349598,
    0.050819073696436734,
    -0.04490435697557504,
    0.040169383760970956,
    -0.03629823350821494,
    0.033077734575438014,
    -0.030359007414019895,
    0.028035031162601393,
    -0.026026964485597544,
];

/// Series of `C0`, `C1`, .. in `eta`, the lowest power first.
pub const CORRECTIONS: [&[f64]; 5] = [
    &[
        -0.3333333333333333,
        0.08333333333333333,
        -0.014814814814814815,
        0.0011574074074074073,
        0.0003527336860670194,
        -0.0001787551440329218,
        3.919263178522438e-05,
        -2.185448510679992e-06,
        -1.85406221071516e-06,
        8.296711340953087e-07,
        -1.7665952736826078e-07,
        6.707853543401498e-09,
        1.0261809784240309e-08,
        -4.382036018453353e-09,
        9.14769958223679e-10,
        -2.5514193994946248e-11,
        -5.830772132550426e-11,
        2.4361948020667415e-11,
        -5.0276692801141755e-12,
        1.1004392031956135e-13,
        3.371763262400985e-13,
        -1.392388722418162e-13,
    ],
    &[
        -0.001851851851851852,
        -0.003472222222222222,
        0.0026455026455026454,
        -0.0009902263374485596,
        0.00020576131687242798,
        -4.018775720164609e-07,
        -1.8098550334489977e-05,
        7.64916091608111e-06,
        -1.6120900894563446e-06,
        4.647127802807434e-09,
        1.378633446915721e-07,
        -5.752545603517705e-08,
        1.1951628599778148e-08,
        -1.7543241719747647e-11,
        -1.0091543710600413e-09,
        4.162792991842583e-10,
        -8.56390702649298e-11,
        6.067215101604758e-14,
        7.1624989648114856e-12,
        -2.933186643771437e-12,
    ],
    &[
        0.004133597883597883,
        -0.0026813271604938273,
        0.0007716049382716049,
        2.0093878600823047e-06,
        -0.0001073665322636516,
        5.2923448829120125e-05,
        -1.2760635188618728e-05,
        3.423578734096138e-08,
        1.3721957309062934e-06,
        -6.298992138380055e-07,
        1.4280614206064242e-07,
        -2.0477098421990866e-10,
        -1.409252991086752e-08,
        6.228974084922022e-09,
        -1.3670488396617114e-09,
        9.428356159014678e-13,
        1.2872252400089318e-10,
        -5.5645956134363323e-11,
    ],
    &[
        0.0006494341563786008,
        0.00022947209362139917,
        -0.0004691894943952557,
        0.00026772063206283885,
        -7.561801671883977e-05,
        -2.396505113867297e-07,
        1.1082654115347302e-05,
        -5.6749528269915965e-06,
        1.4230900732435883e-06,
        -2.7861080291528143e-11,
        -1.6958404091930278e-07,
        8.099464905388083e-08,
        -1.9111168485973655e-08,
        2.3928620439808118e-12,
        2.0620131815488797e-09,
        -9.460496661855133e-10,
    ],
    &[
        -0.0008618882909167117,
        0.0007840392217200666,
        -0.0002990724803031902,
        -1.4638452578843418e-06,
        6.641498215465122e-05,
        -3.968365047179435e-05,
        1.1375726970678419e-05,
        2.507497226237533e-10,
        -1.6954149536558305e-06,
        8.907507532205309e-07,
        -2.292934834000805e-07,
        2.956794137544049e-11,
        2.8865829742708783e-08,
        -1.4189739437803219e-08,
    ],
];
