//! Functions of statistics and physics. StableHLO's library CHLO has some of them.

use crate::equation::Equation;
use crate::text::{Element, Order, Text, Value};
use gradloom_maths::tables;

direct! {
    lgamma = "chlo.lgamma",
    erf_inv = "chlo.erf_inv",
}

/// Appends a function of `f64`, as kernels compute it, and rounds its result.
fn wide(t: &mut Text, x: &Value, f: impl FnOnce(&mut Text, &Value) -> Value) -> Value {
    let narrow = x.element;
    let x = t.convert(x, Element::F64);
    let y = f(t, &x);
    t.convert(&y, narrow)
}

/// Appends `x` with the sign of `of`.
pub(super) fn signed(t: &mut Text, x: &Value, of: &Value) -> Value {
    let magnitude = t.abs(x);
    let negated = t.neg(&magnitude);
    let bits = t.bitcast(of, Element::I64);
    let negative = t.compare_to(Order::Lt, &bits, 0);
    t.select(&negative, &negated, &magnitude)
}

/// Appends the sum of a Chebyshev series, by Clenshaw's recurrence.
fn series(t: &mut Text, terms: &[f64], at: &Value) -> Value {
    let doubled = t.add(at, at);
    let mut first = t.full_like(0, at);
    let mut second = first.clone();
    for term in terms[1..].iter().rev() {
        let next = t.mul(&doubled, &first);
        let next = t.sub(&next, &second);
        let next = t.plus(&next, *term);
        (first, second) = (next, first);
    }
    let y = t.mul(at, &first);
    let y = t.sub(&y, &second);
    t.plus(&y, terms[0])
}

/// Appends `exp(-x) I0(x)` for `x >= 0`, or `exp(-x) I1(x)` over `x` up to 8.
fn scaled(t: &mut Text, x: &Value, small: &[f64], large: &[f64], at_0: f64) -> Value {
    let low = t.times(x, 0.25);
    let low = t.plus(&low, -1);
    let low = series(t, small, &low);
    let is_0 = t.compare_to(Order::Eq, x, 0);
    let low = t.replace(&is_0, at_0, &low);
    let high = t.over(16, x);
    let high = t.plus(&high, -1);
    let high = series(t, large, &high);
    let root = t.sqrt(x);
    let high = t.div(&high, &root);
    let is_small = t.compare_to(Order::Le, x, 8);
    t.select(&is_small, &low, &high)
}

/// Appends `y exp(x)`.
fn grown(t: &mut Text, y: &Value, x: &Value) -> Value {
    let half = t.times(x, 0.5);
    let half = t.exp(&half);
    let y = t.mul(y, &half);
    let y = t.mul(&y, &half);
    let infinite = t.compare_to(Order::Eq, x, f64::INFINITY);
    t.select(&infinite, x, &y)
}

fn scaled_i0(t: &mut Text, magnitude: &Value) -> Value {
    scaled(
        t,
        magnitude,
        &tables::BESSEL_I0_SMALL,
        &tables::BESSEL_I0_LARGE,
        1.0,
    )
}

fn scaled_i1(t: &mut Text, x: &Value, magnitude: &Value) -> Value {
    let y = scaled(
        t,
        magnitude,
        &tables::BESSEL_I1_SMALL,
        &tables::BESSEL_I1_LARGE,
        0.5,
    );
    let product = t.mul(&y, x);
    let above = signed(t, &y, x);
    let is_small = t.compare_to(Order::Le, magnitude, 8);
    t.select(&is_small, &product, &above)
}

pub(super) fn i0e(t: &mut Text, of: &Equation<'_>) -> Value {
    wide(t, of.x(), |t, x| {
        let magnitude = t.abs(x);
        scaled_i0(t, &magnitude)
    })
}

pub(super) fn i0(t: &mut Text, of: &Equation<'_>) -> Value {
    wide(t, of.x(), |t, x| {
        let magnitude = t.abs(x);
        let y = scaled_i0(t, &magnitude);
        grown(t, &y, &magnitude)
    })
}

pub(super) fn i1e(t: &mut Text, of: &Equation<'_>) -> Value {
    wide(t, of.x(), |t, x| {
        let magnitude = t.abs(x);
        scaled_i1(t, x, &magnitude)
    })
}

pub(super) fn i1(t: &mut Text, of: &Equation<'_>) -> Value {
    wide(t, of.x(), |t, x| {
        let magnitude = t.abs(x);
        let y = scaled_i1(t, x, &magnitude);
        let y = grown(t, &y, &magnitude);
        signed(t, &y, x)
    })
}

/// `exp(x^2) erfc(x)` below 2, and a continued fraction above:
/// `1 / (sqrt(pi) (x + (1/2) / (x + 1 / (x + (3/2) / (x + ...)))))`.
pub(super) fn erfcx(t: &mut Text, of: &Equation<'_>) -> Value {
    wide(t, of.x(), |t, x| {
        let square = t.mul(x, x);
        let exp = t.exp(&square);
        let tail = t.same("chlo.erfc", &[x]);
        let near = t.mul(&exp, &tail);
        let mut fraction = x.clone();
        for n in (1..=60).rev() {
            let part = t.over(f64::from(n) / 2.0, &fraction);
            fraction = t.add(x, &part);
        }
        let far = t.over(std::f64::consts::FRAC_2_SQRT_PI / 2.0, &fraction);
        let is_far = t.compare_to(Order::Ge, x, 2);
        t.select(&is_far, &far, &near)
    })
}

/// A quotient of polynomials in each of three intervals.
pub(super) fn ndtri(t: &mut Text, of: &Equation<'_>) -> Value {
    wide(t, of.x(), |t, p| {
        let q = t.plus(p, -0.5);
        let one = t.full_like(1, p);
        let above = t.sub(&one, p);
        let low = t.compare_to(Order::Lt, &q, 0);
        let rest = t.select(&low, p, &above);
        let magnitude = t.abs(&q);

        let square = t.mul(&q, &q);
        let negated = t.neg(&square);
        let in_centre = t.plus(&negated, 0.180625);
        let centre = quotient(t, &tables::QUANTILE_CENTRE, &in_centre);
        let centre = t.mul(&centre, &magnitude);

        let log = t.log(&rest);
        let root = t.neg(&log);
        let root = t.sqrt(&root);
        let in_tail = t.plus(&root, -1.6);
        let tail = quotient(t, &tables::QUANTILE_TAIL, &in_tail);
        let in_end = t.plus(&root, -5);
        let end = quotient(t, &tables::QUANTILE_END, &in_end);

        let is_tail = t.compare_to(Order::Le, &root, 5);
        let y = t.select(&is_tail, &tail, &end);
        let is_centre = t.compare_to(Order::Le, &magnitude, 0.425);
        let y = t.select(&is_centre, &centre, &y);
        let is_0 = t.compare_to(Order::Eq, &rest, 0);
        let y = t.replace(&is_0, f64::INFINITY, &y);
        signed(t, &y, &q)
    })
}

/// Appends the quotient of two polynomials, the coefficients of the highest powers first.
fn quotient(t: &mut Text, of: &[[f64; 8]; 2], x: &Value) -> Value {
    let [top, bottom] = of.map(|terms| {
        let first = t.full_like(terms[0], x);
        terms[1..].iter().fold(first, |y, term| {
            let y = t.mul(&y, x);
            t.plus(&y, *term)
        })
    });
    t.div(&top, &bottom)
}

/// Appends `digamma(x)`, which is infinite at zeros.
pub(super) fn digamma_of(t: &mut Text, x: &Value) -> Value {
    let y = t.same("chlo.digamma", &[x]);
    let at_0 = t.over(-1, x);
    let is_0 = t.compare_to(Order::Eq, x, 0);
    t.select(&is_0, &at_0, &y)
}

/// Appends the sum of `(x + k)^-s` over `k >= 0` by the formula of Euler and Maclaurin, as kernels do.
///
/// CHLO's `zeta` is NaN for large `s`.
pub(super) fn zeta_sum(t: &mut Text, s: &Value, x: &Value) -> Value {
    let power = t.neg(s);
    let mut y = x.clone();
    let mut sum = t.full_like(0, x);
    for _ in 0..12 {
        let term = t.binary("power", &y, &power);
        sum = t.add(&sum, &term);
        y = t.plus(&y, 1);
    }
    let last = t.binary("power", &y, &power);
    let w = t.over(1, &y);
    let square = t.mul(&w, &w);
    let factor = t.mul(&last, &w);
    let mut factor = t.mul(&factor, s);
    let mut rest = t.times(&last, 0.5);
    for (i, number) in tables::ZETA_BERNOULLI.into_iter().enumerate() {
        let term = t.times(&factor, number);
        rest = t.add(&rest, &term);
        for step in [2 * i + 1, 2 * i + 2] {
            let next = t.plus(s, step as f64);
            factor = t.mul(&factor, &next);
        }
        factor = t.mul(&factor, &square);
    }
    // The factors may be infinite where the last power is 0.
    let is_0 = t.compare_to(Order::Eq, &last, 0);
    let rest = t.replace(&is_0, 0, &rest);
    let less = t.plus(s, -1);
    let power = t.neg(&less);
    let integral = t.binary("power", &y, &power);
    let integral = t.div(&integral, &less);
    let rest = t.add(&rest, &integral);
    t.add(&sum, &rest)
}

/// Appends the sum of `(x + k)^-s` over `k >= 0`, for an integer `s` where `x < 0`.
///
/// The terms below 0 are those at positive arguments, with another sign where `s` is not even.
pub(super) fn hurwitz(t: &mut Text, s: &Value, x: &Value, is_even: &Value) -> Value {
    let floor = t.unary("floor", x);
    let r = t.sub(x, &floor);
    let one = t.full_like(1, x);
    let negative = t.compare_to(Order::Lt, x, 0);
    let at = t.select(&negative, &r, x);
    let sum = zeta_sum(t, s, &at);
    let parts = [&r, x].map(|x| {
        let from = t.sub(&one, x);
        // The terms are not read elsewhere.
        let from = t.select(&negative, &from, &one);
        zeta_sum(t, s, &from)
    });
    let below = t.sub(&parts[0], &parts[1]);
    let negated = t.neg(&below);
    let below = t.select(is_even, &below, &negated);
    let both = t.add(&sum, &below);
    t.select(&negative, &both, &sum)
}

/// Appends a polynomial with these coefficients, the highest first.
pub(super) fn horner(t: &mut Text, terms: &[f64], at: &Value) -> Value {
    let mut y = t.full_like(terms[0], at);
    for term in &terms[1..] {
        let next = t.mul(&y, at);
        y = t.plus(&next, *term);
    }
    y
}

/// Appends the exponential integral: a power series from -1 to 12, Chebyshev series elsewhere.
fn expi_of(t: &mut Text, x: &Value) -> Value {
    let magnitude = t.abs(x);
    let log = t.log(&magnitude);
    let log = t.plus(&log, tables::EULER);
    let entire = horner(t, &tables::EXPI_ENTIRE, x);
    let entire = t.mul(&entire, x);
    let low = t.add(&entire, &log);

    let w = t.over(1, &magnitude);
    let [negative, positive] = [
        (2, &tables::EXPI_NEGATIVE[..]),
        (24, &tables::EXPI_POSITIVE[..]),
    ]
    .map(|(scale, terms)| {
        let at = t.times(&w, scale);
        let at = t.plus(&at, -1);
        series(t, terms, &at)
    });
    let negative = t.neg(&negative);
    let is_negative = t.compare_to(Order::Lt, x, 0);
    let factor = t.select(&is_negative, &negative, &positive);
    let scaled = t.mul(&w, &factor);
    let far = grown(t, &scaled, x);

    let above = t.compare_to(Order::Ge, x, -1);
    let below = t.compare_to(Order::Le, x, 12);
    let near = t.and(&above, &below);
    t.select(&near, &low, &far)
}

pub(super) fn expi(t: &mut Text, of: &Equation<'_>) -> Value {
    wide(t, of.x(), expi_of)
}

pub(super) fn exp1(t: &mut Text, of: &Equation<'_>) -> Value {
    wide(t, of.x(), |t, x| {
        let negated = t.neg(x);
        let y = expi_of(t, &negated);
        let y = t.neg(&y);
        let is_negative = t.compare_to(Order::Lt, x, 0);
        t.replace(&is_negative, f64::NAN, &y)
    })
}

/// The dilogarithm of `1 - x`: reflection at 1/2 and inversion lead to arguments near 1.
pub(super) fn spence(t: &mut Text, of: &Equation<'_>) -> Value {
    wide(t, of.x(), |t, x| {
        let large = t.compare_to(Order::Gt, x, 2);
        let inverse = t.over(1, x);
        let y = t.select(&large, &inverse, x);
        let near = t.compare_to(Order::Ge, &y, 0.5);
        let log_y = t.log(&y);
        let negated = t.neg(&y);
        let other = t.unary("log_plus_one", &negated);
        let minus_u = t.select(&near, &log_y, &other);
        let u = t.neg(&minus_u);
        let u2 = t.mul(&u, &u);
        let odd = horner(t, &tables::DILOGARITHM, &u2);
        let odd = t.mul(&odd, &u);
        let rest = t.plus(&odd, -0.25);
        let rest = t.mul(&rest, &u2);
        let series = t.add(&u, &rest);
        let mixed = t.mul(&log_y, &u);
        let is_0 = t.compare_to(Order::Eq, &y, 0);
        let mixed = t.replace(&is_0, 0, &mixed);
        let reflected = t.sub(&mixed, &series);
        let reflected = t.plus(&reflected, tables::ZETA_2);
        let inside = t.select(&near, &series, &reflected);
        let log_x = t.log(x);
        let square = t.mul(&log_x, &log_x);
        let square = t.times(&square, -0.5);
        let outside = t.sub(&square, &inside);
        t.select(&large, &outside, &inside)
    })
}

pub(super) fn digamma(t: &mut Text, of: &Equation<'_>) -> Value {
    digamma_of(t, of.x())
}

/// `(-1)^(n + 1) n! zeta(n + 1, x)`. Terms at negative arguments are those at positive ones, up to a sign.
pub(super) fn polygamma(t: &mut Text, of: &Equation<'_>) -> Value {
    let [x, order] = of.pair(t);
    let narrow = x.element;
    let [x, order] = [x, order].map(|x| t.convert(&x, Element::F64));
    let n = t.unary("round_nearest_even", &order);
    let s = t.plus(&n, 1);
    let half = t.times(&n, 0.5);
    let whole = t.unary("floor", &half);
    let odd = t.compare(Order::Ne, &half, &whole);
    let signed = |t: &mut Text, x: &Value| {
        let negated = t.neg(x);
        t.select(&odd, x, &negated)
    };

    let sum = hurwitz(t, &s, &x, &odd);
    let factorial = t.same("chlo.lgamma", &[&s]);
    let factorial = t.exp(&factorial);
    let y = t.mul(&factorial, &sum);
    let y = signed(t, &y);
    let of_0 = digamma_of(t, &x);
    let is_0 = t.compare_to(Order::Eq, &n, 0);
    let y = t.select(&is_0, &of_0, &y);
    let is_order = t.compare_to(Order::Ge, &n, 0);
    let finite = t.is_finite(&n);
    let is_order = t.and(&is_order, &finite);
    let nan = t.full_like(f64::NAN, &y);
    let y = t.select(&is_order, &y, &nan);
    t.convert(&y, narrow)
}
