//! Modified Bessel functions of the first kind, computed in double precision.
//!
//! `f64` has Chebyshev series in `x / 4 - 1` up to 8, and in `16 / x - 1` above.
//!
//! `f32` has minimax polynomials (Remez) with a few more digits than its own: in `x^2` up to 8, and
//! in `1 / x` above.

use crate::float::Real;
use crate::pow::short_exp2;
use crate::{Arith, Float, exp};
use std::f64::consts::LOG2_E;

/// Returns `exp(-|x|) I0(x)`.
#[inline(always)]
pub fn i0e<A: Arith, T: Float>(x: T) -> T {
    T::bessel::<A>(x, BesselOrder::Zero, BesselFactor::Decay)
}

/// Returns `I0(x)`.
#[inline(always)]
pub fn i0<A: Arith, T: Float>(x: T) -> T {
    T::bessel::<A>(x, BesselOrder::Zero, BesselFactor::None)
}

/// Returns `exp(-|x|) I1(x)`.
#[inline(always)]
pub fn i1e<A: Arith, T: Float>(x: T) -> T {
    T::bessel::<A>(x, BesselOrder::One, BesselFactor::Decay)
}

/// Returns `I1(x)`.
#[inline(always)]
pub fn i1<A: Arith, T: Float>(x: T) -> T {
    T::bessel::<A>(x, BesselOrder::One, BesselFactor::None)
}

/// Which of `I0` and `I1`.
#[derive(Clone, Copy)]
pub enum BesselOrder {
    /// `I0`
    Zero,
    /// `I1`
    One,
}

/// Which factor the function has.
#[derive(Clone, Copy)]
pub enum BesselFactor {
    /// No factor.
    None,
    /// `exp(-|x|)`
    Decay,
}

/// The Bessel functions, which `f32` and `f64` compute in different ways.
pub trait Bessel: Real {
    /// Returns the function at `x`.
    fn bessel<A: Arith>(x: Self, order: BesselOrder, factor: BesselFactor) -> Self;
}

impl Bessel for f32 {
    #[inline(always)]
    fn bessel<A: Arith>(x: f32, order: BesselOrder, factor: BesselFactor) -> f32 {
        let (near, far) = match order {
            BesselOrder::Zero => (NEAR_0, FAR_0),
            BesselOrder::One => (NEAR_1, FAR_1),
        };
        let a = f64::from(x.abs());
        let w = 1.0 / a;
        let (near, far) = (
            (a * a).horner::<A, 11>(near),
            w.horner::<A, 8>(far) * w.sqrt(),
        );
        let (near, far) = match factor {
            BesselFactor::None => (near, far * short_exp2::<A>(a * LOG2_E)),
            BesselFactor::Decay => (near * short_exp2::<A>(a * -LOG2_E), far),
        };
        // Far from 0, the power of two is bounded, and has the factor 0 at infinity.
        let far = match factor {
            BesselFactor::None if a == f64::INFINITY => a,
            _ => far,
        };
        let y = match order {
            BesselOrder::Zero if a <= 8.0 => near,
            BesselOrder::One if a <= 8.0 => near * a,
            _ => far,
        };
        let y = y as f32;
        match order {
            BesselOrder::Zero => y,
            BesselOrder::One => y.copysign(x),
        }
    }
}

impl Bessel for f64 {
    #[inline(always)]
    fn bessel<A: Arith>(x: f64, order: BesselOrder, factor: BesselFactor) -> f64 {
        let a = x.abs();
        let y = match order {
            BesselOrder::Zero => scaled(a, 1.0, &SMALL_0, &LARGE_0),
            BesselOrder::One => odd(scaled(a, 0.5, &SMALL_1, &LARGE_1), x),
        };
        match (order, factor) {
            (_, BesselFactor::Decay) => y,
            (BesselOrder::Zero, BesselFactor::None) => grown::<A>(y, a),
            (BesselOrder::One, BesselFactor::None) => grown::<A>(y, a).copysign(x),
        }
    }
}

/// Returns the sum of a Chebyshev series for `x` up to 8, or of another one over `sqrt(x)` above.
///
/// `limit` is the value at 0.
#[inline(always)]
fn scaled<const M: usize, const N: usize>(
    x: f64,
    limit: f64,
    small: &[f64; M],
    large: &[f64; N],
) -> f64 {
    let is_small = x <= 8.0;
    let low = series(small, x * 0.25 - 1.0);
    let low = if x == 0.0 { limit } else { low };
    let high = series(large, 16.0 / x - 1.0) / x.sqrt();
    if is_small { low } else { high }
}

/// Returns `y x` where `y` is `I1(x) / x`, and `y` with the sign of `x` elsewhere.
#[inline(always)]
fn odd(y: f64, x: f64) -> f64 {
    let is_small = x.abs() <= 8.0;
    if is_small { y * x } else { y.copysign(x) }
}

/// Returns `y exp(x)`.
#[inline(always)]
fn grown<A: Arith>(y: f64, x: f64) -> f64 {
    let half = exp::<A, f64>(x * 0.5);
    let y = y * half * half;
    if x == f64::INFINITY { x } else { y }
}

/// Returns the sum of a Chebyshev series, by Clenshaw's recurrence.
#[inline(always)]
pub(crate) fn series<const N: usize>(terms: &[f64; N], t: f64) -> f64 {
    let (mut first, mut second) = (0.0, 0.0);
    let mut i = N - 1;
    while i > 0 {
        (first, second) = (terms[i] + 2.0 * t * first - second, first);
        i -= 1;
    }
    terms[0] + t * first - second
}

/// Series of `exp(-x) I0(x)` in `x / 4 - 1`, for `x` up to 8.
pub const SMALL_0: [f64; 30] = [
    0.33839763720473803,
    -0.3046826723431984,
    0.17162090152220877,
    -0.09490109704804764,
    0.04930528423967071,
    -0.02373741480589947,
    0.010546460394594998,
    -0.004324309995050576,
    0.0016394756169413357,
    -0.0005763755745385824,
    0.00018850288509584165,
    -5.754195010082104e-05,
    1.6448448070728896e-05,
    -4.4167383584587505e-06,
    1.1173875391201037e-06,
    -2.670793853940612e-07,
    6.046995022541919e-08,
    -1.300025009986248e-08,
    2.6598237246823866e-09,
    -5.189795601635263e-10,
    9.675809035373237e-11,
    -1.726826291441556e-11,
    2.95505266312964e-12,
    -4.856446783111929e-13,
    7.676185498604936e-14,
    -1.1685332877993451e-14,
    1.715391285555133e-15,
    -2.431279846547955e-16,
    3.3307945188222384e-17,
    -4.4153416464793395e-18,
];

/// Series of `sqrt(x) exp(-x) I0(x)` in `16 / x - 1`, for `x` above 8.
pub const LARGE_0: [f64; 27] = [
    0.4022452055070544,
    0.0033691164782556943,
    6.889758346916825e-05,
    2.8913705208347567e-06,
    2.0489185894690638e-07,
    2.266668990498178e-08,
    3.3962320257083865e-09,
    4.94060238822497e-10,
    1.1889147107846439e-11,
    -3.1499165279632416e-11,
    -1.3215811840447713e-11,
    -1.7941785315068062e-12,
    7.180124451383666e-13,
    3.8527783827421426e-13,
    1.54008621752141e-14,
    -4.150569347287222e-14,
    -9.554846698828307e-15,
    3.8116806693526224e-15,
    1.7725601330565263e-15,
    -3.425485619677219e-16,
    -2.8276239805165836e-16,
    3.461222867697461e-17,
    4.46562142029676e-17,
    -4.830504485944182e-18,
    -7.233180487874754e-18,
    9.921475412173699e-19,
    1.193650890845982e-18,
];

/// Series of `exp(-x) I1(x) / x` in `x / 4 - 1`, for `x` up to 8.
pub const SMALL_1: [f64; 29] = [
    0.12629359322181682,
    -0.17641651835783406,
    0.1026436586898471,
    -0.05294598120809499,
    0.024726449030626516,
    -0.010564084894626197,
    0.004156422944312888,
    -0.0015135724506312532,
    0.0005122859561685758,
    -0.00016176081582589674,
    4.781565107550054e-05,
    -1.3273163656039436e-05,
    3.4702513081376785e-06,
    -8.568720264695455e-07,
    2.0032947535521353e-07,
    -4.445059128796328e-08,
    9.381537386495773e-09,
    -1.8872497517228294e-09,
    3.625590281552117e-10,
    -6.663489723502027e-11,
    1.1736186298890901e-11,
    -1.9839743977649436e-12,
    3.223793365945575e-13,
    -5.042185504727912e-14,
    7.600684294735408e-15,
    -1.1055969477353862e-15,
    1.5536319577362005e-16,
    -2.111421214358166e-17,
    2.7779141127610464e-18,
];

/// Series of `sqrt(x) exp(-x) I1(x)` in `16 / x - 1`, for `x` above 8.
pub const LARGE_1: [f64; 27] = [
    0.38928811750914005,
    -0.009761097491361469,
    -0.00011058893876262371,
    -3.882564808877691e-06,
    -2.512236237870209e-07,
    -2.6314688468895196e-08,
    -3.835380385964237e-09,
    -5.589743462196584e-10,
    -1.8974958123505413e-11,
    3.2526035830154884e-11,
    1.4125807436613782e-11,
    2.0356285441470896e-12,
    -7.198551776245908e-13,
    -4.0835511110921974e-13,
    -2.1015418427726643e-14,
    4.272440016711951e-14,
    1.0420276984128802e-14,
    -3.8144030724370075e-15,
    -1.8803547755107825e-15,
    3.3082023109209285e-16,
    2.96262899764595e-16,
    -3.209525921993424e-17,
    -4.6503053684893586e-17,
    4.414348323071708e-18,
    7.517296310842105e-18,
    -9.314178867326884e-19,
    -1.242193275194891e-18,
];

/// `I0(x)` in `x^2` for `f32` and `x` up to 8, the highest power first.
const NEAR_0: [f64; 11] = [
    1.3566412985003e-19,
    1.9913302278717e-17,
    1.0069572278343e-14,
    2.372138264299e-12,
    4.7179987103252e-10,
    6.7802352286559e-08,
    6.7818306680022e-06,
    0.0004340269619464,
    0.015625002161707,
    0.24999999796587,
    1.0,
];

/// `sqrt(x) exp(-x) I0(x)` in `1 / x` for `f32` and `x` above 8, the highest power first.
const FAR_0: [f64; 8] = [
    8.5436345378451,
    -1.9142610081668,
    0.33887372313611,
    0.029998534417952,
    0.029676763703301,
    0.028043818036807,
    0.049867822994394,
    0.39894228036882,
];

/// `I1(x) / x` in `x^2` for `f32` and `x` up to 8, the highest power first.
const NEAR_1: [f64; 11] = [
    5.967308485145e-21,
    1.052839045213e-18,
    5.5253262917029e-16,
    1.4871175333499e-13,
    3.3682254724037e-11,
    5.6506185893432e-09,
    6.7817703896238e-07,
    5.4253418984011e-05,
    0.0026041668269158,
    0.062499999822906,
    0.5,
];

/// `sqrt(x) exp(-x) I1(x)` in `1 / x` for `f32` and `x` above 8, the highest power first.
const FAR_1: [f64; 8] = [
    -9.6244220627587,
    2.1534869546894,
    -0.39369194635172,
    -0.040570147426649,
    -0.041438920441301,
    -0.046743014587686,
    -0.1496034009698,
    0.39894228044422,
];
