//! The error function and its kin, in double precision.
//!
//! `erf(x) = x + x P(x^2)` where `|x|` is small. In the tail `erfc(x) = exp(-x^2) Q(t) / (1 + 2 x)` with
//! `t = (x - 4) / (x + 4)`, which maps the half-line to an interval on which `Q` is smooth. `P` and `Q` are Chebyshev
//! interpolants, of relative error below `1e-17`.

use crate::{Builder, Op, Var};
use gradloom_maths::Float;
use std::f64::consts::FRAC_1_SQRT_2;

/// Computes `f32` in double precision.
pub(super) fn in_f64<T: Float>(x: T, f: fn(f64) -> f64) -> T {
    T::of(f(x.to_f64()))
}

/// The error function, to 1 ulp.
pub(super) fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a < 0.8 {
        x + x * polynomial(&P, x * x)
    } else {
        // NaN comes here too, and stays.
        (1.0 - tail(a)).copysign(x)
    }
}

/// `1 - erf(x)`, to 3 ulp also where it is tiny.
pub(super) fn erfc(x: f64) -> f64 {
    if x.abs() < 0.5 {
        1.0 - erf(x)
    } else if x < 0.0 {
        2.0 - tail(-x)
    } else {
        tail(x)
    }
}

/// `x` times the probability that a standard normal variable is below `x`.
pub(super) fn gelu(x: f64) -> f64 {
    // The limit at minus infinity is not -inf * 0.
    if x == f64::NEG_INFINITY {
        return -0.0;
    }
    0.5 * x * erfc(-x * FRAC_1_SQRT_2)
}

/// `scale * exp(-x^2)`.
pub(super) fn bell(b: &mut Builder, scale: f64, x: Var) -> Var {
    let x2 = b.mul(x, x);
    let exponent = b.neg(x2);
    let exp = b.unary(Op::Exp, exponent);
    let scale = b.scalar(scale, x);
    b.mul(scale, exp)
}

/// `erfc(x)` for `x >= 0.5`.
fn tail(x: f64) -> f64 {
    // Beyond 28 the result is below the least positive number.
    let x = if x > 28.0 { 28.0 } else { x };
    // x^2 in two parts, the first exact: the rounding error of x * x would be multiplied by x * x in the result.
    let head = f64::from_bits(x.to_bits() & 0xffff_ffff_f800_0000);
    let rest = (head - x) * (head + x);
    let q = polynomial(&Q, (x - 4.0) / (x + 4.0)) / (1.0 + 2.0 * x);
    let scaled = q + q * rest.exp_m1();
    (-head * head).exp() * scaled
}

fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, c| sum * x + c)
}

/// `erf(x) / x - 1` in powers of `x^2`, the highest first, for `x^2` in `[0, 0.7]`.
const P: [f64; 12] = [
    -8.927785427648097e-10,
    1.4223426140826797e-08,
    -1.6305944317519722e-07,
    1.6458171004652483e-06,
    -1.492547788703476e-05,
    0.00012055327932755238,
    -0.000854832692594625,
    0.005223977624246819,
    -0.026866170645044696,
    0.11283791670954801,
    -0.3761263890318375,
    0.1283791670955126,
];

/// `(1 + 2 x) exp(x^2) erfc(x)` in powers of `(x - 4) / (x + 4)`, the highest first, for `x` in `[0.5, 28]`.
const Q: [f64; 22] = [
    -1.0476718674668371e-08,
    -1.2224048303152388e-08,
    1.0568025135820959e-07,
    6.702452833728971e-08,
    -8.22559563206072e-07,
    2.9955790685567077e-07,
    5.7086428044048145e-06,
    -1.12247322473501e-05,
    -2.4398983809134553e-05,
    0.00015062249512264785,
    -0.00019925671345040716,
    -0.0007577734486762808,
    0.0050319699756138135,
    -0.01619773403826592,
    0.03716751553818893,
    -0.06633036581360713,
    0.09373283499828751,
    -0.10103906603625375,
    0.0680970542546948,
    0.015379652102619027,
    -0.13962111684056253,
    1.2329951186255526,
];

#[cfg(test)]
mod tests {
    use super::{erf, erfc};

    /// `x`, `erf(x)`, `erfc(x)`, `erfc(-x)`, computed with 50 digits (mpmath) and rounded once.
    const EXACT: &[(f64, f64, f64, f64)] = &[
        (1e-300, 1.1283791670955126e-300, 1.0, 1.0),
        (
            1e-09,
            1.1283791670955127e-09,
            0.9999999988716208,
            1.0000000011283792,
        ),
        (
            0.1,
            0.1124629160182849,
            0.887537083981715,
            1.1124629160182848,
        ),
        (
            0.3,
            0.3286267594591274,
            0.6713732405408726,
            1.3286267594591274,
        ),
        (
            0.49999,
            0.5204910899433182,
            0.4795089100566818,
            1.5204910899433182,
        ),
        (
            0.5,
            0.5204998778130465,
            0.4795001221869535,
            1.5204998778130465,
        ),
        (
            0.7,
            0.6778011938374184,
            0.32219880616258156,
            1.6778011938374184,
        ),
        (
            0.79999,
            0.742095014802199,
            0.25790498519780103,
            1.742095014802199,
        ),
        (
            0.8,
            0.7421009647076605,
            0.2578990352923395,
            1.7421009647076604,
        ),
        (
            1.0,
            0.8427007929497149,
            0.15729920705028513,
            1.8427007929497148,
        ),
        (
            1.3,
            0.9340079449406524,
            0.06599205505934755,
            1.9340079449406524,
        ),
        (
            1.9,
            0.9927904292352575,
            0.0072095707647425325,
            1.9927904292352574,
        ),
        (
            2.5,
            0.999593047982555,
            0.0004069520174449589,
            1.999593047982555,
        ),
        (
            3.3,
            0.9999969422902035,
            3.0577097964381654e-06,
            1.9999969422902035,
        ),
        (
            4.1,
            0.9999999932999724,
            6.700027654084918e-09,
            1.9999999932999724,
        ),
        (
            5.7,
            0.9999999999999992,
            7.566211621862486e-16,
            1.9999999999999993,
        ),
        (5.95, 1.0, 3.94336397733967e-17, 2.0),
        (8.0, 1.0, 1.1224297172982926e-29, 2.0),
        (13.7, 1.0, 1.2613158337408749e-83, 2.0),
        (20.1, 1.0, 9.735977140428878e-178, 2.0),
        (26.5, 1.0, 2.2109076642637343e-307, 2.0),
    ];

    fn ulps(a: f64, b: f64) -> u64 {
        a.to_bits().abs_diff(b.to_bits())
    }

    #[test]
    fn the_error_function_is_right_to_the_last_digits() {
        for &(x, e, c, c_minus) in EXACT {
            assert!(ulps(erf(x), e) <= 1, "erf({x}) = {}, and is {e}", erf(x));
            assert_eq!(erf(-x), -erf(x));
            assert!(ulps(erfc(x), c) <= 3, "erfc({x}) = {}, and is {c}", erfc(x));
            assert!(
                ulps(erfc(-x), c_minus) <= 1,
                "erfc(-{x}) = {}, and is {c_minus}",
                erfc(-x)
            );
        }
    }

    #[test]
    fn the_error_function_is_right_at_the_ends() {
        assert_eq!(
            [erf(f64::INFINITY), erf(f64::NEG_INFINITY), erf(0.0)],
            [1.0, -1.0, 0.0]
        );
        assert_eq!(
            [erfc(f64::INFINITY), erfc(f64::NEG_INFINITY), erfc(0.0)],
            [0.0, 2.0, 1.0]
        );
        assert!(erf(f64::NAN).is_nan() && erfc(f64::NAN).is_nan());
    }
}
