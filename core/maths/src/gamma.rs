//! `lgamma`, `digamma` and `polygamma`, computed in double precision.
//!
//! Near 1 and 2 they are polynomials that have the factor `x - root`. Recurrences lead from other
//! arguments below 8 or 10 to these, and an asymptotic series gives the rest. Negative arguments
//! are reflected.

use crate::float::Real;
use crate::log::Log;
use crate::zeta::{BERNOULLI, short_zeta};
use crate::{Arith, Float, log, pow};
use std::f64::consts::PI;

/// Returns `log |gamma(x)|`, to 4 ulp for `x > 0`. For `x < 0` the error is absolute near a root.
#[inline(always)]
pub fn lgamma<A: Arith, T: Float>(x: T) -> T {
    let x = x.wide();
    let reflected = x < 0.0;
    let z = if reflected { 1.0 - x } else { x };
    let y = of_positive::<A>(z);
    let (_, sin, _) = turns::<A>(x);
    let mirror = log::<A, f64>(PI / sin.abs()) - y;
    let y = if reflected { mirror } else { y };
    T::of(if x.abs() == f64::INFINITY {
        f64::INFINITY
    } else {
        y
    })
}

/// Returns `log gamma(z)` for `z >= 0`.
#[inline(always)]
fn of_positive<A: Arith>(z: f64) -> f64 {
    let (low, large) = (z < 0.75, z >= 8.0);
    // gamma(z) is gamma(y) times or over the product, with 0.75 <= y < 2.5.
    let (mut y, mut product) = if low { (z + 1.0, z) } else { (z, 1.0) };
    let mut i = 0;
    while i < 6 {
        let above = (y >= 2.5) & !large;
        y = if above { y - 1.0 } else { y };
        product = if above { product * y } else { product };
        i += 1;
    }
    let first = y < 1.5;
    let e = if first { y - 1.0 } else { y - 2.0 };
    // log gamma(2 + e) / e for |e| <= 0.5
    const SECOND: [f64; 21] = [
        0.0,
        0.0,
        -1.3219945666117874e-07,
        2.78740805211359e-07,
        -4.3252393445604814e-07,
        9.200527894968101e-07,
        -2.0439048107029907e-06,
        4.38470440459836e-06,
        -9.438715099211532e-06,
        2.0505590755833454e-05,
        -4.49263133791557e-05,
        9.945767355819498e-05,
        -0.00022315475400520507,
        0.0005096695154115458,
        -0.0011927539118428156,
        0.002890510331034267,
        -0.0073855510286719986,
        0.02058080842778038,
        -0.0673523010531981,
        0.32246703342411326,
        0.42278433509846713,
    ];
    let mut value = if first { NEAR_1[0] } else { SECOND[0] };
    let mut i = 1;
    while i < 21 {
        value = value.fma::<A>(e, if first { NEAR_1[i] } else { SECOND[i] });
        i += 1;
    }
    let near = value * e;
    let log = log::<A, f64>(if large { z } else { product });
    let near = if low { near - log } else { near + log };
    // Stirling's series
    let w = 1.0 / z;
    let series = (w * w).horner::<A, 8>(STIRLING);
    let far = (z - 0.5).fma::<A>(log - 1.0, series.fma::<A>(w, 0.4189385332046728));
    if large { far } else { near }
}

/// Stirling's series of `log gamma` in `1 / z^2`, the highest power first.
pub const STIRLING: [f64; 8] = [
    -0.029550653594771242,
    0.00641025641025641,
    -0.0019175269175269176,
    0.0008417508417508417,
    -0.0005952380952380953,
    0.0007936507936507937,
    -0.002777777777777778,
    0.08333333333333333,
];

/// `log gamma(1 + e) / e` for `-0.25 <= e <= 0.5`, the highest power first.
pub const NEAR_1: [f64; 21] = [
    -0.007827903758187479,
    0.028792237448304066,
    -0.05025335130400477,
    0.05965262141057934,
    -0.06094838710696912,
    0.0625423359398394,
    -0.06642631231818852,
    0.07138307009222658,
    -0.07694329201052834,
    0.08335811853975911,
    -0.0909539021382746,
    0.10009928704113542,
    -0.11133425955691714,
    0.12550967314237613,
    -0.14404989699480447,
    0.16955717695720057,
    -0.2073855510260384,
    0.27058080842798954,
    -0.4006856343865417,
    0.8224670334241129,
    -0.5772156649015329,
];

/// Returns `log gamma(1 + a)` for `a >= 0`, with a relative error of some ulp also near 0.
#[inline(always)]
pub(crate) fn lgamma_1p<A: Arith>(a: f64) -> f64 {
    if a <= 0.5 {
        a * a.horner::<A, 21>(NEAR_1)
    } else {
        of_positive::<A>(1.0 + a)
    }
}

/// Returns `r`, `sin(pi x)` and `cos(pi x)` up to their common sign, where `r` is the distance of
/// `x` from the nearest integer.
#[inline(always)]
fn turns<A: Arith>(x: f64) -> (f64, f64, f64) {
    let r = x - x.round_ties_even();
    let z = r * r;
    let sin = z.polynomial::<A, 9>([
        -2.2349456072698055e-08,
        7.949258149042043e-07,
        -2.1915282920601852e-05,
        0.0004663027953897944,
        -0.007370430944816936,
        0.08214588661108463,
        -0.599264529320791,
        2.5501640398773455,
        -5.16771278004997,
    ]);
    let cos = z.polynomial::<A, 9>([
        -1.3479054836358117e-07,
        4.301203720851614e-06,
        -0.00010463763434072599,
        0.0019295742401671152,
        -0.025806891384027284,
        0.23533063035860233,
        -1.3352627688545824,
        4.0587121264167685,
        -4.934802200544679,
    ]);
    (r, (sin * z).fma::<A>(r, PI * r), cos.fma::<A>(z, 1.0))
}

/// Returns the derivative of `lgamma`, to 4 ulp for `x > 0`. It is NaN at negative integers.
#[inline(always)]
pub fn digamma<A: Arith, T: Float>(x: T) -> T {
    const ROOT: (f64, f64) = (1.4616321449683622, 9.549995429965697e-17);
    let x = x.wide();
    let reflected = x < 0.0;
    let z = if reflected { 1.0 - x } else { x };
    let (low, large) = (z < 1.0, z >= 10.0);
    // The value at y, with 1 <= y <= 2, and a sum of reciprocals
    let (mut y, mut top, mut bottom) = if low {
        (z + 1.0, -1.0, z)
    } else {
        (z, 0.0, 1.0)
    };
    let mut i = 0;
    while i < 8 {
        let above = (y > 2.0) & !large;
        y = if above { y - 1.0 } else { y };
        top = if above { top.fma::<A>(y, bottom) } else { top };
        bottom = if above { bottom * y } else { bottom };
        i += 1;
    }
    let value = (y - 1.5).polynomial::<A, 21>([
        0.0002522590506964885,
        -0.0003783907897248858,
        0.00023650171719339814,
        -0.00035476352053371977,
        0.0007184107969046378,
        -0.0010776863967234226,
        0.0015580749137213761,
        -0.002337552647103118,
        0.0035187504361950134,
        -0.005280903066090605,
        0.007926972735646359,
        -0.011908146513976738,
        0.017907250563619775,
        -0.026975800029253667,
        0.0407608338843387,
        -0.06192213319072707,
        0.09498872445354183,
        -0.14840492305485808,
        0.24054248424078478,
        -0.4236274212814573,
        0.9510558760318328,
    ]);
    let near = value.fma::<A>((y - ROOT.0) - ROOT.1, top / bottom);
    let w = 1.0 / z;
    let w2 = w * w;
    let series = w2.horner::<A, 8>([
        -0.4432598039215686,
        0.08333333333333333,
        -0.021092796092796094,
        0.007575757575757576,
        -0.004166666666666667,
        0.003968253968253968,
        -0.008333333333333333,
        0.08333333333333333,
    ]);
    let far = log::<A, f64>(z) - series.fma::<A>(w2, 0.5 * w);
    let y = if large { far } else { near };
    let (r, sin, cos) = turns::<A>(x);
    let mirror = if r == 0.0 {
        f64::NAN
    } else {
        y - PI * cos / sin
    };
    T::of(if reflected { mirror } else { y })
}

/// Returns the derivative of `digamma` of an order, which is rounded to an integer, to 50 ulp.
///
/// The error of `f32` is 0.53 ulp for `x > 0`. A negative order gives NaN, and orders above 170 give
/// infinity or NaN. In double precision, arguments below 0 take a branch.
#[inline(always)]
pub fn polygamma<A: Arith, T: Float>(x: T, order: T) -> T {
    T::polygamma::<A>(x, order)
}

/// The polygamma function, which `f32` and `f64` compute in different ways.
pub trait Polygamma: Real {
    /// Returns the derivative of `digamma` of an order.
    fn polygamma<A: Arith>(x: Self, order: Self) -> Self;
}

impl Polygamma for f64 {
    #[inline(always)]
    fn polygamma<A: Arith>(x: f64, order: f64) -> f64 {
        let n = order.round_ties_even();
        let s = n + 1.0;
        let odd = 0.5 * n != (0.5 * n).round_ties_even();
        let sum = if x < 0.0 {
            // The terms at x, x + 1, .. below 0 are those at 1 - r, 2 - r, .. up to a sign.
            let r = x - x.floor();
            let below = zeta::<A>(s, 1.0 - r) - zeta::<A>(s, 1.0 - x);
            zeta::<A>(s, r) + if odd { below } else { -below }
        } else {
            zeta::<A>(s, x)
        };
        let mut factorial = 1.0;
        let mut i = 2.0;
        while i <= n.at_most(171.0) {
            factorial *= i;
            i += 1.0;
        }
        let y = factorial * sum;
        let y = if odd { y } else { -y };
        let y = if n == 0.0 { digamma::<A, f64>(x) } else { y };
        if n >= 0.0 { y } else { f64::NAN }
    }
}

impl Polygamma for f32 {
    #[inline(always)]
    fn polygamma<A: Arith>(x: f32, order: f32) -> f32 {
        let (x, n) = (f64::from(x), f64::from(order).round_ties_even());
        // The lowest byte of the sum is the integer.
        let index = (n.at_least(0.0).at_most(255.0) + f64::MAGIC).to_bits() as u8;
        let (exponent, factor) = f64::split_power(FACTORIALS[index as usize]);
        let y = factor * short_zeta::<A>(n + 1.0, x, exponent);
        // Beyond the last finite factorial, the product is known to be infinite only for small x.
        let high = if x <= 35.0 {
            f64::INFINITY.copysign(y)
        } else {
            f64::NAN
        };
        let y = if n > 170.0 { high } else { y };
        let odd = 0.5 * n != (0.5 * n).round_ties_even();
        let y = if odd { y } else { -y };
        let y = if n == 0.0 { digamma::<A, f64>(x) } else { y };
        let has_order = (0.0..f64::INFINITY).contains(&n);
        (if has_order { y } else { f64::NAN }) as f32
    }
}

/// The factorials, the last of which are infinite.
const FACTORIALS: [f64; 256] = {
    let mut factorials = [1.0; 256];
    let mut n = 1;
    while n < 256 {
        factorials[n] = factorials[n - 1] * n as f64;
        n += 1;
    }
    factorials
};

/// Returns the sum of `(x + k)^-s` over `k >= 0`, for `x >= 0` and `s >= 2` (Euler, Maclaurin).
#[inline(always)]
fn zeta<A: Arith>(s: f64, x: f64) -> f64 {
    let mut y = x;
    let mut sum = 0.0;
    let mut i = 0;
    while i < 12 {
        sum += pow::<A, f64>(y, -s);
        y += 1.0;
        i += 1;
    }
    let last = pow::<A, f64>(y, -s);
    let w = 1.0 / y;
    let mut factor = last * w * s;
    let mut rest = 0.5 * last;
    let mut i = 0;
    while i < 9 {
        rest += BERNOULLI[i] * factor;
        let j = s + (2 * i) as f64;
        factor *= w * w * (j + 1.0) * (j + 2.0);
        i += 1;
    }
    // An infinite y has no part in the sum.
    let integral = last * y / (s - 1.0);
    let integral = if last == 0.0 { 0.0 } else { integral };
    sum + (rest + integral)
}
