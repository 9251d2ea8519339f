//! `erf`, `erfc`, `erfcx` and `gelu`.
//!
//! For small `|x|`, `erf(x) = x + x P(x^2)`.
//!
//! For `a >= 0`, `erfc(a) = exp(-a^2) w G(t)` with `w = 1 / (a + c)` and `t = (a - c) / (a + c)`,
//! which maps the half-line to an interval on which `G` is smooth (M. M. Shepherd and J. G.
//! Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", Math. Comp. 36, 1981). `a^2`
//! is computed exactly in two parts, because the result would multiply a rounding error of `a * a`
//! by `a * a`.
//!
//! `P` and `G` are minimax polynomials (Remez).

use crate::exp::{exp, exp_lifted, exp_lifted_sum, exp_parts};
use crate::float::Real;
use crate::{Arith, Float};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

/// The parts of the error function that depend on the type.
pub trait Erf: Real {
    /// The argument from which on `erf` is 1.
    const ERF_MAX: Self;
    /// The argument from which on even `20 erfc` is 0.
    const ERFC_MAX: Self;
    /// The constant `c` of the formula.
    const CENTRE: Self;
    /// `G(0)`
    const ERFC_FIRST: Self;
    /// `G'(0)`
    const ERFC_SLOPE: Self;
    /// Returns `erf(x) / x - 1` for `z = x^2` and `|x| <= 0.8`.
    fn erf_small<A: Arith>(z: Self) -> Self;
    /// Returns `log(erfc(a))`, as accurate as `1 - erfc(a)` needs.
    ///
    /// The range is `0.79 <= a <=` [`ERF_MAX`](Erf::ERF_MAX).
    fn erfc_exponent<A: Arith>(a: Self) -> Self;
    /// Returns `((G(t) - G(0)) / t - G'(0)) / t`.
    fn erfc_higher<A: Arith>(t: Self) -> Self;
    /// Returns `x P(x)` with the standard normal distribution `P`.
    fn gelu<A: Arith>(x: Self) -> Self;
}

impl Erf for f32 {
    const ERF_MAX: f32 = 4.0;
    const ERFC_MAX: f32 = 10.6;
    const CENTRE: f32 = 1.0;
    const ERFC_FIRST: f32 = 0.85516715;
    const ERFC_SLOPE: f32 = -0.23768094;

    #[inline(always)]
    fn erf_small<A: Arith>(z: f32) -> f32 {
        z.polynomial::<A, 7>([
            9.0936264e-05,
            -0.0008293726,
            0.0052128406,
            -0.026863644,
            0.11283764,
            -0.37612638,
            0.12837917,
        ])
    }
    #[inline(always)]
    fn erfc_exponent<A: Arith>(a: f32) -> f32 {
        a.polynomial::<A, 7>([
            0.00020837963,
            -0.0031622103,
            0.02268849,
            -0.10486155,
            -0.6361551,
            -1.1282657,
            -5.7753725e-05,
        ])
    }
    #[inline(always)]
    fn erfc_higher<A: Arith>(t: f32) -> f32 {
        t.polynomial::<A, 9>([
            0.0018091917,
            -0.0010217787,
            -0.00274635,
            -0.003390261,
            -0.0011971856,
            0.009504761,
            0.02539674,
            0.013911022,
            -0.095556505,
        ])
    }

    /// Returns `max(x, 0) - exp(-a^2 / 2) M(t)` with `a = |x|` and `t = (a - c) / (a + c)`.
    ///
    /// `M` hardly varies for large `a`, so that rounding errors of `t` matter little. For small `a`,
    /// the result is `x (1/2 + x S(x^2 / 2))`. `M` and `S` are minimax polynomials (Remez).
    #[inline(always)]
    fn gelu<A: Arith>(x: f32) -> f32 {
        const CENTRE: f32 = 1.25;
        // The result is 0 or x beyond the bound.
        let a = x.abs().at_most(14.5);
        let t = (a - CENTRE) / (a + CENTRE);
        // The last coefficient of the rest of M is the rounding error of the constant term.
        let [first] = const { lowered([0.2884504]) };
        let more = t.polynomial::<A, 12>(
            const {
                lowered([
                    0.0025133365,
                    -0.0040038833,
                    -0.0010093777,
                    -0.0007960217,
                    0.00079618103,
                    0.0070316475,
                    0.012655174,
                    0.0030793739,
                    -0.04432347,
                    -0.09706417,
                    0.2316137,
                    1.18995205e-08,
                ])
            },
        );
        let (m, m_rest) = first.fast_two_sum(more);
        let (v, rest) = a.two_product::<A>(0.5 * a);
        let (p, scale) = exp_lifted_sum::<A, f32>(-v, -rest, GELU_LIFT);
        let tail = (m + m.fma::<A>(p, m_rest)) * scale;
        // The bound -0 keeps the sign of a tail that underflows.
        let large = x.at_least(-0.0) - tail;
        let s = v.horner::<A, 5>([
            0.0018846894,
            -0.0095551135,
            0.03990476,
            -0.13298142,
            0.3989423,
        ]);
        let small = x * x.fma::<A>(s, 0.5);
        if a < 0.62 { small } else { large }
    }
}

/// The exponent of a power of two that makes all powers of two in [`Erf::gelu`] normal.
const GELU_LIFT: i32 = 32;

/// Divides the coefficients by `2^GELU_LIFT`.
const fn lowered<const N: usize>(mut coefficients: [f32; N]) -> [f32; N] {
    let mut i = 0;
    while i < N {
        coefficients[i] /= (1u64 << GELU_LIFT) as f32;
        i += 1;
    }
    coefficients
}

impl Erf for f64 {
    const ERF_MAX: f64 = 6.0;
    const ERFC_MAX: f64 = 27.5;
    const CENTRE: f64 = 2.0;
    const ERFC_FIRST: f64 = 1.021582705242023;
    const ERFC_SLOPE: f64 = -0.6871606844138105;

    #[inline(always)]
    fn erf_small<A: Arith>(z: f64) -> f64 {
        z.polynomial::<A, 12>([
            -9.093912443542182e-10,
            1.4282778309354774e-08,
            -1.6315083657197167e-07,
            1.6458964605817798e-06,
            -1.4925520574320596e-05,
            0.00012055329403770161,
            -0.0008548326958401412,
            0.005223977624691675,
            -0.02686617064508013,
            0.11283791670954946,
            -0.3761263890318375,
            0.1283791670955126,
        ])
    }
    #[inline(always)]
    fn erfc_exponent<A: Arith>(a: f64) -> f64 {
        a.polynomial::<A, 19>([
            1.7082379415099996e-12,
            -7.47957710316366e-11,
            1.5343088311316658e-09,
            -1.958419187890874e-08,
            1.7403098978249483e-07,
            -1.1388588166886402e-06,
            5.637706163386449e-06,
            -2.1157584553360707e-05,
            5.8035317784174974e-05,
            -9.932716862030174e-05,
            6.668474653137896e-06,
            0.0005682814290531163,
            -0.0016874407943619006,
            0.0002093200261208351,
            0.019125530638164565,
            -0.1027704720423562,
            -0.6366205960912916,
            -1.1283789901614834,
            -1.6731723178657256e-08,
        ])
    }
    #[inline(always)]
    fn erfc_higher<A: Arith>(t: f64) -> f64 {
        t.polynomial::<A, 21>([
            -8.001778649339828e-08,
            2.1210502819806783e-07,
            1.6946268812138143e-07,
            -5.385223271987789e-07,
            -6.446604945125156e-07,
            1.7916732367806196e-07,
            1.9972522050760145e-06,
            3.56385892527993e-06,
            -1.109816812993896e-06,
            -1.6099097762244405e-05,
            -2.1702616257233567e-05,
            3.4145168004220025e-05,
            0.00014447205021283132,
            3.4371833501078426e-05,
            -0.0006630736541384868,
            -0.0008372960879041354,
            0.0030906120685702683,
            0.006479185068636177,
            -0.021510661889778755,
            -0.03644223150689369,
            0.2794720925560582,
        ])
    }

    #[inline(always)]
    fn gelu<A: Arith>(x: f64) -> f64 {
        // Bounds x, because -inf times 0 would be NaN.
        let x = x.at_least(-40.0);
        let (a, half) = (x.abs(), x * 0.5);
        let (y, b) = tail::<A, f64>(a, BY_SQRT_HALF, Some(half.at_most(20.0)));
        let large = if x < 0.0 { y * b } else { x - y * b };
        let small = near_zero::<A, f64>(x * SQRT_HALF.0).fma::<A>(half, half);
        // A zero keeps its sign.
        (if a < 0.7 { small } else { large }).copysign(x)
    }
}

/// Returns the error function, to 2 ulp.
#[inline(always)]
pub fn erf<A: Arith, T: Float>(x: T) -> T {
    let a = x.abs();
    let (p, scale) = exp_lifted::<A, T>(T::erfc_exponent::<A>(a.at_most(T::ERF_MAX)), 0);
    let large = (T::of(1.0) - p.fma::<A>(scale, scale)).copysign(x);
    if a < T::of(0.8) {
        near_zero::<A, T>(x)
    } else {
        large
    }
}

/// Returns `1 - erf(x)`, to 2 ulp even where it is tiny.
#[inline(always)]
pub fn erfc<A: Arith, T: Float>(x: T) -> T {
    let a = x.abs();
    let (y, b) = tail::<A, T>(a, unscaled(), None);
    let y = y * b;
    let large = if x < T::of(0.0) { T::of(2.0) - y } else { y };
    let small = T::of(1.0) - near_zero::<A, T>(x);
    if a < T::of(0.5) { small } else { large }
}

/// Returns `exp(x^2) erfc(x)`, to 4 ulp. It overflows for very negative `x`.
#[inline(always)]
pub fn erfcx<A: Arith, T: Float>(x: T) -> T {
    let (one, a) = (T::of(1.0), x.abs());
    // For large a, the asymptotic series: sum((2 k - 1)!! (-1 / (2 a^2))^k) / (a sqrt(pi)).
    let far = a > T::ERFC_MAX;
    let r = one / a;
    let z = r * r * T::of(-0.5);
    let sum = z.polynomial::<A, 8>([
        T::of(135135.0),
        T::of(10395.0),
        T::of(945.0),
        T::of(105.0),
        T::of(15.0),
        T::of(3.0),
        one,
        one,
    ]);
    let series = sum * r * T::of(0.5 * FRAC_2_SQRT_PI);
    // exp(x^2), with the square in two parts, for x < 0.5.
    let bounded = x.at_most(one).at_least(-T::ERFC_MAX);
    let (head, rest) = bounded.two_product::<A>(bounded);
    let exp = exp::<A, T>(head) * (one + rest);
    // The product of both is erfc(a), without its exponential.
    let (sum, sum_rest) = a.at_most(T::ERFC_MAX).two_sum(T::CENTRE);
    let w = one / sum;
    let t = (a.at_most(T::ERFC_MAX) - T::CENTRE) * w;
    let g = T::erfc_higher::<A>(t)
        .fma::<A>(t, T::ERFC_SLOPE)
        .fma::<A>(t, T::ERFC_FIRST);
    let w = (-sum_rest * w).fma::<A>(w, w);
    let large = if far { series } else { g * w };
    let near = exp * (one - near_zero::<A, T>(x));
    let below = exp * erfc::<A, T>(x);
    let y = if a < T::of(0.5) { near } else { large };
    if x <= T::of(-0.5) { below } else { y }
}

/// Returns `x P(x)` with the standard normal distribution `P`, to 2 ulp even where it is tiny.
#[inline(always)]
pub fn gelu<A: Arith, T: Float>(x: T) -> T {
    T::gelu::<A>(x)
}

/// Returns `erf(x)` for `|x| <= 0.8`.
#[inline(always)]
fn near_zero<A: Arith, T: Float>(x: T) -> T {
    T::erf_small::<A>(x * x).fma::<A>(x, x)
}

/// Returns `y` and `b` with `top erfc(scale a) = y b`, for `a >= 0`.
///
/// The scale is 1 or `sqrt(1/2)`, `b` is a power of two, and `y` is normal. The error is small for
/// `scale a >= 0.49`.
#[inline(always)]
fn tail<A: Arith, T: Float>(a: T, scale: Scale<T>, top: Option<T>) -> (T, T) {
    let one = T::of(1.0);
    let a = a.at_most(scale.max);
    let (u, u_rest) = match scale.factor {
        Some((factor, rest)) => {
            let (u, u_rest) = a.two_product::<A>(factor);
            (u, a.fma::<A>(rest, u_rest))
        }
        None => (a, T::of(0.0)),
    };
    let (sum, sum_rest) = u.two_sum(T::CENTRE);
    let w = one / sum;
    let (first, t) = (T::ERFC_FIRST, (u - T::CENTRE) * w);
    let higher = T::erfc_higher::<A>(t);
    let (scaled, scaled_rest) = if A::FUSED {
        first.fast_two_sum(higher.fma::<A>(t, T::ERFC_SLOPE) * t)
    } else {
        // Most of the error comes from rounding the slope and its product, so correct these.
        let (line, line_rest) = t.two_product::<A>(T::ERFC_SLOPE);
        let (sum, sum_rest) = first.fast_two_sum(line);
        sum.fast_two_sum(higher * (t * t) + (line_rest + sum_rest))
    };
    let (g, g_rest) = scaled.two_product::<A>(w);
    // The exponent corrects the relative error of w G(t). That is the relative error of w times t
    // G'(t) / G(t) + 1, which is about 1 - t/2.
    let w_rest = (u_rest + sum_rest) * w;
    let (back, back_rest) = sum.two_product::<A>(w);
    let error = ((one - back) - back_rest - w_rest) * t.fma::<A>(T::of(-0.5), one);
    let (head, rest) = a.two_product::<A>(a * scale.square);
    let ([r, q], [s, b]) = exp_parts::<A, T>(-head, error - rest);
    let g_rest = scaled_rest.fma::<A>(w, g_rest);
    let (g, g_rest) = match top {
        Some(top) => {
            let (product, rest) = g.two_product::<A>(top);
            (product, g_rest.fma::<A>(top, rest))
        }
        None => (g, g_rest),
    };
    // Multiply by 1 + r + q, the small terms first.
    let small = g.fma::<A>(q, g_rest);
    let y = if A::FUSED {
        g + g.fma::<A>(r, small)
    } else {
        let (sum, sum_rest) = g.fast_two_sum(g * r);
        sum + (sum_rest + small)
    };
    (y * s, b)
}

/// A factor of the argument.
struct Scale<T> {
    /// The factor in two parts, or `None` for 1.
    factor: Option<(T, T)>,
    /// The exact square of the factor.
    square: T,
    /// The argument beyond which the result is 0.
    max: T,
}

#[inline(always)]
fn unscaled<T: Float>() -> Scale<T> {
    Scale {
        factor: None,
        square: T::of(1.0),
        max: T::ERFC_MAX,
    }
}

/// `sqrt(1/2)` in two parts.
const SQRT_HALF: (f64, f64) = (FRAC_1_SQRT_2, -4.833646656726457e-17);

const BY_SQRT_HALF: Scale<f64> = Scale {
    factor: Some(SQRT_HALF),
    square: 0.5,
    max: f64::ERFC_MAX * SQRT_2,
};
