//! The incomplete gamma and beta functions, and the exponential integrals of all orders.
//!
//! Formulas, regions and constants are those of the kernels in `gradloom_maths`.

use super::Results;
use super::formula::{Term, formula, repeat};
use super::special::{digamma_of, horner, hurwitz, signed, zeta_sum};
use crate::ExportError;
use crate::equation::Equation;
use crate::text::{Order, Text, Value};
use gradloom_ir::op::Eval;
use gradloom_ir::{Program, SecondaryMap, Var, pass};
use gradloom_maths::{ZETA_ORDERS, tables};
use std::f64::consts::PI;

/// Largest difference from 1 of the last factor of a continued fraction.
const LAST: f64 = 2.5e-16;

/// Appends `e - log(1 + e)` without cancellation, for `-0.6 <= e <= 1.5`.
fn log_defect<'f>(e: &Term<'f>) -> Term<'f> {
    // log(1 + e) = 2 artanh(r), and e - 2 r = e r
    let r = e / (2.0 + e);
    let r2 = &r * &r;
    let terms: [f64; 25] = std::array::from_fn(|i| 1.0 / (51.0 - 2.0 * i as f64));
    let sum = &r * &r2 * r2.with(|t, at| horner(t, &terms, at));
    e * r - 2.0 * sum
}

/// Appends `e - log`, where `log` is `log(1 + e)`.
fn defect<'f>(e: &Term<'f>, log: Term<'f>) -> Term<'f> {
    (e.ge(-0.6) & e.le(1.5)).pick(log_defect(e), e - log)
}

/// Appends `log gamma(z)` without the leading terms of Stirling's series, for `z >= 8`.
fn stirling<'f>(z: &Term<'f>) -> Term<'f> {
    let w = 1.0 / (z * z);
    w.with(|t, at| horner(t, &tables::STIRLING, at)) / z
}

/// Appends `log gamma(1 + a)` for `a >= 0`, with a small relative error also near 0.
fn lgamma_1p<'f>(a: &Term<'f>) -> Term<'f> {
    let near = a * a.with(|t, at| horner(t, &tables::LGAMMA_NEAR_1, at));
    a.le(0.5).pick(near, (1.0 + a).chlo("lgamma"))
}

/// Appends the magnitude of `x` with the sign of `of`.
fn copysign<'f>(x: &Term<'f>, of: &Term<'f>) -> Term<'f> {
    x.with_operand(of, signed)
}

/// Appends a reciprocal that is large at 0.
fn reciprocal<'f>(x: &Term<'f>) -> Term<'f> {
    1.0 / x.eq(0.0).pick(1e-300, x)
}

/// Appends whether a factor of a continued fraction is not its last one.
fn is_factor<'f>(x: &Term<'f>) -> Term<'f> {
    (x - 1.0).abs().gt(LAST)
}

/// Appends whether a term counts beside the sum.
fn counts<'f>(term: &Term<'f>, sum: &Term<'f>) -> Term<'f> {
    term.abs().gt(1e-17 * sum.abs())
}

/// Appends `x^(a - less) exp(-x) / gamma(a + 1)`, where `less` is 0 or 1.
fn gamma_power<'f>(a: &Term<'f>, x: &Term<'f>, less: f64) -> Term<'f> {
    // Halves of the exponential underflow later than the whole.
    let half = (-0.5 * x).exp();
    let gamma = (-lgamma_1p(a)).exp();
    let small = &half * x.pow(a - less) * &half * gamma;
    let small = half.eq(0.0).pick(0.0, small);

    let e = (x - a) / a;
    let exponent = -(a * defect(&e, (x / a).log())) - stirling(a);
    let large = exponent.exp() / (2.0 * PI * a).sqrt();
    let large = if less == 0.0 { large } else { large / x };
    a.lt(8.0).pick(small, large)
}

/// Appends the lower and the upper incomplete gamma function.
fn gamma_pair<'f>(a: &Term<'f>, x: &Term<'f>) -> [Term<'f>; 2] {
    let is_0 = x.eq(0.0) | a.eq(f64::INFINITY);
    let is_1 = a.eq(0.0) | x.eq(f64::INFINITY);
    let is_valid = a.ge(0.0) & x.ge(0.0) & !(a.eq(x) & (&is_0 & &is_1));
    let inside = &is_valid & !(&is_0 | &is_1);

    let is_large = a.ge(1e4);
    let in_series = !&is_large & (x.lt(1.5) | x.le(a));
    let in_fraction = !(&is_large | &in_series);
    let is_small = a.lt(1.0) & x.lt(1.5);
    let power = gamma_power(a, x, 0.0);
    let series = &power * gamma_series(a, x, &(&inside & &in_series));
    let fraction = power * gamma_fraction(a, x, &(&inside & in_fraction)) * a;
    let small = small_upper(a, x, &(&inside & &is_small));
    let part = gamma_uniform(a, x);
    let is_upper = x.gt(a);

    let [lower, upper] = [
        is_large.pick(
            is_upper.pick(1.0 - &part, &part),
            in_series.pick(&series, 1.0 - &fraction),
        ),
        is_large.pick(
            is_upper.pick(&part, 1.0 - &part),
            in_series.pick(is_small.pick(small, 1.0 - series), fraction),
        ),
    ];
    [(lower, 0.0, 1.0), (upper, 1.0, 0.0)].map(|(y, first, last)| {
        let y = is_0.pick(first, is_1.pick(last, y));
        is_valid.pick(y, f64::NAN)
    })
}

/// Appends `1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ..`.
fn gamma_series<'f>(a: &Term<'f>, x: &Term<'f>, going: &Term<'f>) -> Term<'f> {
    let init = [a.number(1.0), a.number(1.0)];
    let ([_, sum], _) = repeat(100_000, going, [a, x], init, |n, [a, x], [term, sum]| {
        let term = term * x / (a + n);
        let sum = sum + &term;
        let goes_on = counts(&term, &sum);
        ([term, sum], goes_on)
    });
    sum
}

/// Appends the continued fraction of the upper function, by the modified method of Lentz.
fn gamma_fraction<'f>(a: &Term<'f>, x: &Term<'f>, going: &Term<'f>) -> Term<'f> {
    let b = x + 1.0 - a;
    let d = reciprocal(&b);
    let init = [b, a.number(1e300), d.clone(), d];
    let ([.., value], _) = repeat(100_000, going, [a], init, |n, [a], [b, c, d, value]| {
        let top = n * (a - n);
        let b = b + 2.0;
        let d = reciprocal(&(&top * d + &b));
        let c = &b + top / c;
        let c = c.eq(0.0).pick(1e-300, &c);
        let factor = &d * &c;
        let value = value * &factor;
        ([b, c, d, value], is_factor(&factor))
    });
    value
}

/// Appends the upper function for `a < 1` and `x < 1.5`, without the difference of two numbers near 1.
fn small_upper<'f>(a: &Term<'f>, x: &Term<'f>, going: &Term<'f>) -> Term<'f> {
    let exponent = a * x.log() - lgamma_1p(a);
    let init = [a.number(1.0), a.number(0.0)];
    let ([_, sum], _) = repeat(60, going, [a, x], init, |n, [a, x], [power, sum]| {
        let power = power * (-x / n);
        let term = &power / (a + n);
        let sum = sum + &term;
        let goes_on = counts(&term, &sum);
        ([power, sum], goes_on)
    });
    -exponent.expm1() - exponent.exp() * (a * sum)
}

/// Appends the lower function for large `a` and `x <= a`, or the upper one above, by the expansion in `1 / a`.
fn gamma_uniform<'f>(a: &Term<'f>, x: &Term<'f>) -> Term<'f> {
    let e = (x - a) / a;
    let half_square = defect(&e, (x / a).log());
    let root = copysign(&(2.0 * &half_square).sqrt(), &e);
    let near = e.with(|t, at| polynomial(t, &tables::GAMMA_ETA, at));
    let eta = e.abs().lt(0.1).pick(near, root);
    let exponent = a * half_square;
    let main = 0.5 * exponent.sqrt().chlo("erfc");
    let mut rest = a.number(0.0);
    for terms in tables::GAMMA_CORRECTIONS.iter().rev() {
        rest = rest / a + eta.with(|t, at| polynomial(t, terms, at));
    }
    let rest = rest * (-&exponent).exp() / (2.0 * PI * a).sqrt();
    let part = e.gt(0.0).pick(&main + &rest, main - rest);
    // The part underflows beyond this.
    (e.le(-1.0) | exponent.gt(760.0)).pick(0.0, part)
}

/// Appends a polynomial with these coefficients, the lowest first.
fn polynomial(t: &mut Text, terms: &[f64], at: &Value) -> Value {
    let terms: Vec<f64> = terms.iter().rev().copied().collect();
    horner(t, &terms, at)
}

pub(super) fn gammainc(t: &mut Text, of: &Equation<'_>) -> Value {
    let [a, x] = of.pair(t);
    formula(t, [&a, &x], |[a, x]| {
        let [lower, _] = gamma_pair(&a, &x);
        lower
    })
}

pub(super) fn gammaincc(t: &mut Text, of: &Equation<'_>) -> Value {
    let [a, x] = of.pair(t);
    formula(t, [&a, &x], |[a, x]| {
        let [_, upper] = gamma_pair(&a, &x);
        upper
    })
}

/// Returns the variables that are numbers: orders are those of rules, and arithmetic on them.
fn numbers(program: &Program) -> SecondaryMap<Var, f64> {
    let mut numbers = pass::constants(program);
    for eqn in &program.eqns {
        let args = eqn.data().iter().map(|x| numbers.get(*x).copied());
        let args: Option<Vec<f64>> = args.collect();
        let mut y = [0.0];
        match (eqn.op.def().eval(), args.as_deref()) {
            (Eval::Unary(fns), Some([x])) => (fns.f64.baseline)(&[*x], &mut y),
            (Eval::Binary(fns), Some([x, z])) => (fns.f64.baseline)(&[*x], &[*z], &mut y),
            _ => continue,
        }
        numbers.insert(eqn.out(), y[0]);
    }
    numbers
}

/// Appends the first operands of a density, if its order is the constant 0.
fn of_order_0<const N: usize>(t: &mut Text, of: &Equation<'_>) -> Result<[Value; N], ExportError> {
    let numbers = numbers(of.program);
    let order = numbers.get(of.eqn.args[N]);
    if !order.is_some_and(|order| order.round_ties_even() == 0.0) {
        let reason = "its order is not the constant 0, so it is a derivative in a parameter";
        return Err(ExportError::NoForm { op: of.op, reason });
    }
    let mut all = of.spread(t, 0..N).into_iter();
    Ok([(); N].map(|()| all.next().expect("the op has more operands")))
}

/// `x^(a - 1) exp(-x) / gamma(a)`
pub(super) fn gamma_density(t: &mut Text, of: &Equation<'_>) -> Results {
    let [a, x] = of_order_0(t, of)?;
    let y = formula(t, [&a, &x], |[a, x]| {
        let y = &a * gamma_power(&a, &x, 1.0);
        let at_0 = (a.gt(1.0) | a.eq(0.0)).pick(0.0, f64::INFINITY);
        let at_0 = a.eq(1.0).pick(1.0, at_0);
        let y = x.eq(0.0).pick(at_0, y);
        let [a_ends, x_ends] = [&a, &x].map(|x| x.eq(f64::INFINITY));
        let y = (&a_ends | &x_ends).pick((a_ends & x_ends).pick(f64::NAN, 0.0), y);
        (a.ge(0.0) & x.ge(0.0)).pick(y, f64::NAN)
    });
    Ok(vec![y])
}

/// Parameters of the beta distribution, with the argument and its complement.
#[derive(Clone)]
struct Point<'f> {
    a: Term<'f>,
    b: Term<'f>,
    x: Term<'f>,
    y: Term<'f>,
    /// `a - (a + b) x`, which is positive below the mean.
    distance: Term<'f>,
}

impl<'f> Point<'f> {
    fn new(a: &Term<'f>, b: &Term<'f>, x: &Term<'f>) -> Point<'f> {
        // The sum and the product have two parts, because their difference may be small.
        let sum = a + b;
        let rounding = a.gt(b).pick(b - (&sum - a), a - (&sum - b));
        let (s, p) = (sum.leading(), x.leading());
        let (s_rest, p_rest) = (&sum - &s, x - &p);
        let mixed = &s * &p_rest + &s_rest * &p;
        let distance = (a - s * p) - mixed - s_rest * p_rest - rounding * x;
        Point {
            a: a.clone(),
            b: b.clone(),
            x: x.clone(),
            y: 1.0 - x,
            distance,
        }
    }

    /// Appends the point of the function `1 - I`, with the parameters exchanged, where a mask is true.
    fn mirrored(&self, mask: &Term<'f>) -> Point<'f> {
        Point {
            a: mask.pick(&self.b, &self.a),
            b: mask.pick(&self.a, &self.b),
            x: mask.pick(&self.y, &self.x),
            y: mask.pick(&self.x, &self.y),
            distance: mask.pick(-&self.distance, &self.distance),
        }
    }

    /// Appends whether the continued fraction converges slowly.
    fn is_above_mean(&self) -> Term<'f> {
        self.x.gt((&self.a + 1.0) / (&self.a + &self.b + 2.0))
    }

    /// Appends the logarithms of the argument and of its complement, of which the smaller one is exact.
    fn logs(&self) -> [Term<'f>; 2] {
        [(&self.x, &self.y), (&self.y, &self.x)].map(|(x, y)| y.lt(0.5).pick((-y).log1p(), x.log()))
    }

    /// Appends `a log(x_0 / x) + b log(y_0 / y)`, where `x_0 = a / (a + b)` is the mean.
    fn deviance(&self) -> Term<'f> {
        let Point { a, b, distance, .. } = self;
        let [log_x, log_y] = self.logs();
        let of_x = defect(&(-distance / a), log_x + (b / a).log1p());
        let of_y = defect(&(distance / b), log_y + (a / b).log1p());
        a * of_x + b * of_y
    }

    /// Appends `x^a y^b / (a B(a, b))`.
    fn power(&self) -> Term<'f> {
        let Point { a, b, x, y, .. } = self;
        let [log_x, log_y] = self.logs();
        let (a_is_large, b_is_large) = (a.ge(8.0), b.ge(8.0));
        let sum = a + b;
        let rest = stirling(a) + stirling(b) - stirling(&sum);
        let size = (b / (&sum * a) / (2.0 * PI)).sqrt();
        let large = (-self.deviance() - rest).exp() * size;

        let x_to_a = y.lt(0.5).pick((a * log_x).exp(), x.pow(a));
        // Halves underflow later than the whole.
        let half = (0.5 * b * log_y).exp();
        let [of_a, of_b, of_sum] = [a, b, &sum].map(lgamma_1p);
        // gamma(a + b) / gamma(b) is near b^a.
        let ratio = log_ratio(&b_is_large.pick(a, b), &b_is_large.pick(b, a));
        let power = b_is_large.pick((x * b).pow(a), &x_to_a * (b / a));
        let beta = b_is_large.pick(&ratio - &of_a, &ratio + b * a.log() - &of_b);
        let is_mixed = &a_is_large | &b_is_large;
        let power = is_mixed.pick(power, x_to_a * (b / sum));
        let beta = is_mixed.pick(beta, of_sum - of_a - of_b);
        let small = (&half * power) * beta.exp() * half;
        (a_is_large & b_is_large).pick(large, small)
    }

    /// Appends the function below the mean: its power over a continued fraction.
    fn fraction(&self, going: &Term<'f>) -> Term<'f> {
        let denominator = |Point {
                               a,
                               b,
                               x,
                               y,
                               distance,
                           }: &Point<'f>,
                           n: &Term<'f>| {
            let near = (a + n) / (a + 2.0 * n + 1.0) * (distance + (1.0 + n * (1.0 + y)));
            near + (b - n) * (n * x) / (a + 2.0 * n - 1.0) + n
        };
        let Point {
            a,
            b,
            x,
            y,
            distance,
        } = self;
        let first = a / (a + 1.0) * (distance + 1.0);
        let consts = [a, b, x, y, distance];
        let init = [first.clone(), a.number(0.0), first];
        let ([.., value], going) = repeat(100_000, going, consts, init, |n, of, [c, d, value]| {
            let [a, b, x, y, distance] = of.clone();
            let point = Point {
                a,
                b,
                x,
                y,
                distance,
            };
            let Point { a, b, x, .. } = &point;
            let below = a + (2.0 * n - 1.0);
            let top = (a + (n - 1.0)) / &below * ((a + b + (n - 1.0)) / below);
            let top = top * ((b - n) * (n * x * x));
            let whole = denominator(&point, n);
            let d = reciprocal(&(&whole + &top * d));
            let c = whole + top / c;
            let c = c.eq(0.0).pick(1e-300, &c);
            let factor = &c * &d;
            let value = value * &factor;
            ([c, d, value], is_factor(&factor))
        });
        let y = self.power() * a / value;
        going.pick(f64::NAN, y)
    }

    /// Appends the function for large parameters.
    fn normal_limit(&self) -> Term<'f> {
        let Point { a, b, distance, .. } = self;
        let (deviance, sum) = (self.deviance(), a + b);
        let (mean, rest) = (a / &sum, b / &sum);
        let (width, offset) = ((&mean * &rest).sqrt(), -distance / &sum);
        let eta = copysign(&(2.0 * (&deviance / &sum)).sqrt(), &offset);
        let first = eta.abs().lt(1e-8 * &width).pick(
            (rest - mean) / (3.0 * &width),
            1.0 / &eta - &width / &offset,
        );
        let correction = (-&deviance).exp() / (2.0 * PI * sum).sqrt() * first;
        let at = copysign(&deviance.sqrt(), &-offset);
        (0.5 * at.chlo("erfc") + correction).max(0.0).min(1.0)
    }

    /// Appends `1 - I` for a small `a`, by the series of `I` in powers of `x`.
    fn small_rest(&self, going: &Term<'f>) -> Term<'f> {
        let Point { a, b, x, .. } = self;
        let init = [a.number(1.0), a.number(0.0)];
        let ([_, sum], _) = repeat(10_000, going, [a, b, x], init, |n, [a, b, x], old| {
            let [power, sum] = old;
            let power = power * (n - b) * (x / n);
            let term = &power / (a + n);
            let sum = sum + &term;
            let goes_on = counts(&term, &sum);
            ([power, sum], goes_on)
        });
        let exponent = a * x.log() + self.log_growth(going) - lgamma_1p(a);
        -exponent.expm1() - exponent.exp() * (a * sum)
    }

    /// Appends the logarithm of `gamma(a + b) / gamma(b)`, which is small for small `a`.
    fn log_growth(&self, going: &Term<'f>) -> Term<'f> {
        let Point { a, b, .. } = self;
        let is_small = a.lt(0.02 * b);
        // The power series in a: the polygamma function is the zeta function up to a factor.
        let init = [-a, a * b.with(digamma_of)];
        let going = going & &is_small;
        let ([_, growth], _) = repeat(8, &going, [a, b], init, |n, [a, b], [power, growth]| {
            let power = power * -a;
            let k = n + 1.0;
            let slope = k.with_operand(b, zeta_sum);
            let growth = growth + &power * slope / k;
            let goes_on = n.ge(0.0);
            ([power, growth], goes_on)
        });
        let far = log_ratio(a, b) + a * b.log();
        let near = (a + b).chlo("lgamma") - b.chlo("lgamma");
        is_small.pick(growth, b.ge(8.0).pick(far, near))
    }
}

/// Appends the logarithm of `gamma(a + b) / (gamma(b) b^a)` for `b >= 8`, which is small for small `a`.
fn log_ratio<'f>(a: &Term<'f>, b: &Term<'f>) -> Term<'f> {
    let u = a / b;
    let sum = a + b;
    // (a + b - 1/2) log(1 + a / b) - a, without cancellation
    let near = a * &u - &sum * log_defect(&u);
    let far = &sum * u.log1p() - a;
    let main = u.lt(1.5).pick(near, far);
    main - 0.5 * u.log1p() + (stirling(&sum) - stirling(b))
}

/// Appends whether a parameter is so much greater than the other that the function is one of the gamma distribution.
fn is_far<'f>(greater: &Term<'f>, other: &Term<'f>) -> Term<'f> {
    let other = other.max(1.0);
    greater.ge(1e32 * &other * &other)
}

/// Appends whether the operands are in the domain.
fn is_valid<'f>(a: &Term<'f>, b: &Term<'f>, x: &Term<'f>) -> Term<'f> {
    a.ge(0.0) & b.ge(0.0) & x.ge(0.0) & x.le(1.0)
}

pub(super) fn betainc(t: &mut Text, of: &Equation<'_>) -> Value {
    let args = of.spread(t, 0..3);
    formula(t, [&args[0], &args[1], &args[2]], |[a, b, x]| {
        let is_0 = b.eq(0.0) | a.eq(f64::INFINITY);
        let is_1 = a.eq(0.0) | b.eq(f64::INFINITY);
        let is_end = x.eq(0.0) | x.eq(1.0);
        let is_valid = is_valid(&a, &b, &x) & !(&is_0 & &is_1);
        let inside = &is_valid & !(&is_0 | &is_1 | &is_end);

        let [far_a, far_b] = [is_far(&a, &b), is_far(&b, &a)];
        let is_far = &inside & (&far_a | &far_b);
        let shape = is_far.pick(far_b.pick(&a, &b), 1.0);
        let at = far_b.pick(-(&b * (-&x).log1p()), -(&a * x.log()));
        let [lower, upper] = gamma_pair(&shape, &is_far.pick(at, 1.0));
        let of_gamma = far_b.pick(lower, upper);

        let point = Point::new(&a, &b, &x);
        let is_large = a.min(&b).ge(1e10);
        let is_plain = &inside & !(&is_far | &is_large);
        let is_above = point.is_above_mean();
        let nearer = point.mirrored(&is_above);
        let part = nearer.fraction(&is_plain);
        let is_small = &is_above & part.gt(0.9) & nearer.a.lt(1.0);
        let small = nearer.small_rest(&(&is_plain & &is_small));
        let y = is_above.pick(is_small.pick(small, 1.0 - &part), part);

        let y = is_large.pick(point.normal_limit(), y);
        let y = is_far.pick(of_gamma, y);
        let y = is_1.pick(1.0, is_0.pick(0.0, y));
        is_valid.pick(is_end.pick(x, y), f64::NAN)
    })
}

/// `x^(a - 1) (1 - x)^(b - 1) / B(a, b)`
pub(super) fn beta_density(t: &mut Text, of: &Equation<'_>) -> Results {
    let [a, b, x] = of_order_0(t, of)?;
    let y = formula(t, [&a, &b, &x], |[a, b, x]| {
        let point = Point::new(&a, &b, &x);
        let point = point.mirrored(&point.is_above_mean());
        // The order of the factors avoids underflow where the result does not.
        let y = point.power() * &point.a / &point.x / &point.y;
        let is_first = x.eq(0.0);
        let (p, q) = (is_first.pick(&a, &b), is_first.pick(&b, &a));
        let at_end = p.lt(1.0).pick(f64::INFINITY, p.eq(1.0).pick(q, 0.0));
        let y = (is_first | x.eq(1.0)).pick(at_end, y);
        let [a_ends, b_ends] = [&a, &b].map(|x| x.eq(0.0) | x.eq(f64::INFINITY));
        let at_end = a.eq(&b).pick(f64::NAN, 0.0);
        let y = (a_ends | b_ends).pick(at_end, y);
        is_valid(&a, &b, &x).pick(y, f64::NAN)
    });
    Ok(vec![y])
}

/// The power series up to 1, a continued fraction above, and the recurrence for negative orders.
pub(super) fn expn(t: &mut Text, of: &Equation<'_>) -> Value {
    let [x, order] = of.pair(t);
    formula(t, [&x, &order], |[x, order]| {
        let n = order.round();
        let is_valid = x.ge(0.0) & n.eq(&n);
        let is_0 = x.eq(f64::INFINITY) | n.eq(f64::INFINITY);
        let at_0 = n.gt(1.0).pick(1.0 / (&n - 1.0), f64::INFINITY);
        let inside = &is_valid & !&is_0 & x.gt(0.0);
        let (is_positive, is_above) = (n.gt(0.0), x.gt(1.0));
        let series = expn_series(&x, &n, &(&inside & &is_positive & !&is_above));
        let fraction = expn_fraction(&x, &n, &(&inside & &is_positive & &is_above));
        let recurrence = expn_recurrence(&x, &n, &(inside & !&is_positive));
        let y = is_positive.pick(is_above.pick(fraction, series), recurrence);
        let y = is_0.pick(0.0, x.eq(0.0).pick(at_0, y));
        is_valid.pick(y, f64::NAN)
    })
}

fn expn_series<'f>(x: &Term<'f>, n: &Term<'f>, going: &Term<'f>) -> Term<'f> {
    let digamma = n.with(digamma_of) - x.log();
    let less = n - 1.0;
    let term = |power: &Term<'f>, below: Term<'f>, digamma: &Term<'f>| {
        let plain = -(power / &below);
        below.eq(0.0).pick(power * digamma, plain)
    };
    let one = x.number(1.0);
    let first = term(&one, -&less, &digamma);
    let consts = [x, &less, &digamma];
    let ([_, sum], _) = repeat(400, going, consts, [one, first], |m, of, [power, sum]| {
        let [x, less, digamma] = of;
        let power = power * (-x / m);
        let sum = sum + term(&power, m - less, digamma);
        let goes_on = power.abs().gt(1e-18 * sum.abs());
        ([power, sum], goes_on)
    });
    sum
}

fn expn_fraction<'f>(x: &Term<'f>, n: &Term<'f>, going: &Term<'f>) -> Term<'f> {
    let b = x + n;
    let d = 1.0 / &b;
    let init = [b, x.number(1e300), d.clone(), d];
    let ([.., y], _) = repeat(1000, going, [n], init, |i, [n], [b, c, d, y]| {
        let top = -i * (n - 1.0 + i);
        let b = b + 2.0;
        let d = 1.0 / (&top * d + &b);
        let c = &b + top / c;
        let factor = &c * &d;
        let y = y * &factor;
        ([b, c, d, y], is_factor(&factor))
    });
    y * (-x).exp()
}

/// Appends the orders 0, -1, .. in turn. Beyond the limit all of them are infinite.
fn expn_recurrence<'f>(x: &Term<'f>, n: &Term<'f>, going: &Term<'f>) -> Term<'f> {
    let (size, last) = ((-x).exp(), -n);
    let first = &size / x;
    let going = going & last.ge(1.0) & first.lt(f64::INFINITY);
    let consts = [x, &size, &last];
    let ([y], going) = repeat(100_000, &going, consts, [first], |k, of, [y]| {
        let [x, size, last] = of;
        let y = (size + k * y) / x;
        let goes_on = last.ge(k + 1.0) & y.lt(f64::INFINITY);
        ([y], goes_on)
    });
    going.pick(f64::INFINITY, y)
}

/// Appends the sum of `(q + k)^-s` over `k >= 0`.
fn zeta_of<'f>(s: &Term<'f>, q: &Term<'f>) -> Term<'f> {
    let y = s.with_operand(q, |t, s, q| {
        let half = t.times(s, 0.5);
        let floor = t.unary("floor", &half);
        let is_even = t.compare(Order::Eq, &half, &floor);
        hurwitz(t, s, q, &is_even)
    });
    let [s_is_whole, q_is_whole] = [s, q].map(|x| x.eq(x.floor()));
    let y = (q.gt(0.0) | s_is_whole).pick(y, f64::NAN);
    let limit = q.eq(1.0).pick(1.0, q.lt(1.0).pick(f64::INFINITY, 0.0));
    let y = is_limit(s, q).pick(limit, y);
    let is_pole = s.eq(1.0) | (q.le(0.0) & q_is_whole);
    let y = is_pole.pick(f64::INFINITY, y);
    (s.ge(1.0) & q.eq(q)).pick(y, f64::NAN)
}

fn is_limit<'f>(s: &Term<'f>, q: &Term<'f>) -> Term<'f> {
    s.eq(f64::INFINITY) | q.eq(f64::INFINITY)
}

pub(super) fn zeta(t: &mut Text, of: &Equation<'_>) -> Value {
    let [s, q] = of.pair(t);
    formula(t, [&s, &q], |[s, q]| zeta_of(&s, &q))
}

/// The first coefficients of a power series in a change of the exponent of the zeta function.
type Series<'f> = [Term<'f>; ZETA_ORDERS + 1];

/// Appends the products of the coefficients of `x` with those of `y + t`.
fn times_line<'f>(x: &Series<'f>, y: &Term<'f>) -> Series<'f> {
    std::array::from_fn(|k| match k {
        0 => &x[0] * y,
        _ => &x[k] * y + &x[k - 1],
    })
}

/// Appends the quotients of the coefficients of `x` by those of `y + t`.
fn over_line<'f>(x: Series<'f>, y: &Term<'f>) -> Series<'f> {
    let mut last: Option<Term<'f>> = None;
    x.map(|x| {
        let rest = match &last {
            Some(last) => x - last,
            None => x,
        };
        let next = rest / y;
        last = Some(next.clone());
        next
    })
}

fn plus<'f>(x: &[Term<'f>], y: &Series<'f>) -> Series<'f> {
    std::array::from_fn(|k| &x[k] + &y[k])
}

/// Appends `y^-(exponent + t)`.
fn power_series<'f>(y: &Term<'f>, exponent: &Term<'f>) -> Series<'f> {
    let slope = -y.log();
    let mut next = y.pow(-exponent);
    std::array::from_fn(|k| {
        let this = next.clone();
        next = &next * &slope / (k + 1) as f64;
        this
    })
}

/// Appends the series of the zeta function for `q > 0`, by the formula of Euler and Maclaurin.
fn zeta_series<'f>(s: &Term<'f>, q: &Term<'f>) -> Series<'f> {
    let zero = s.number(0.0);
    let states: [Term<'f>; ZETA_ORDERS + 2] =
        std::array::from_fn(|k| if k == 0 { q.clone() } else { zero.clone() });
    let going = q.gt(0.0);
    let (states, _) = repeat(12, &going, [s], states, |n, [s], states| {
        let sum = plus(&states[1..], &power_series(&states[0], s));
        let next = &states[0] + 1.0;
        let goes_on = n.gt(0.0);
        (
            std::array::from_fn(|k| if k == 0 { &next } else { &sum[k - 1] }.clone()),
            goes_on,
        )
    });
    let (y, sum) = (&states[0], &states[1..]);
    let last = power_series(y, s);
    let less = s - 1.0;
    let integral = over_line(power_series(y, &less), &less);
    let w = 1.0 / y;
    let mut factor = times_line(&last, s).map(|x| x * &w);
    let mut rest = last.clone().map(|x| 0.5 * x);
    for (i, number) in tables::ZETA_BERNOULLI.into_iter().enumerate() {
        rest = plus(&rest, &factor.clone().map(|x| x * number));
        for step in [2 * i + 1, 2 * i + 2] {
            factor = times_line(&factor, &(s + step as f64)).map(|x| x * &w);
        }
    }
    // The factors may be infinite where the last power is 0.
    let is_0 = last[0].eq(0.0);
    let rest = rest.map(|x| is_0.pick(0.0, x));
    plus(sum, &plus(&rest, &integral))
}

pub(super) fn zeta_ds(t: &mut Text, of: &Equation<'_>) -> Value {
    let args = of.spread(t, 0..3);
    formula(t, [&args[0], &args[1], &args[2]], |[s, q, order]| {
        let n = order.round();
        let (mut y, mut factorial) = (s.number(f64::NAN), 1.0);
        for (k, coefficient) in zeta_series(&s, &q).iter().enumerate().skip(1) {
            factorial *= k as f64;
            // At the pole, the derivatives alternate in sign.
            let pole = f64::INFINITY.copysign(if k % 2 == 0 { 1.0 } else { -1.0 });
            let value =
                is_limit(&s, &q).pick(q.gt(1.0).pick(0.0, f64::NAN), coefficient * factorial);
            let value = q.gt(0.0).pick(value, f64::NAN);
            let value = s.eq(1.0).pick(pole, value);
            y = n.eq(k as f64).pick(value, y);
        }
        let y = (s.ge(1.0) & q.eq(&q)).pick(y, f64::NAN);
        n.eq(0.0).pick(zeta_of(&s, &q), y)
    })
}
