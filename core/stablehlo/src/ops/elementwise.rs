//! Elementwise ops that are a few StableHLO ops.

use crate::equation::Equation;
use crate::text::{Element, Number, Order, Text, Value};

direct! {
    neg = "stablehlo.negate",
    abs = "stablehlo.abs",
    sign = "stablehlo.sign",
    exp = "stablehlo.exponential",
    log = "stablehlo.log",
    log1p = "stablehlo.log_plus_one",
    expm1 = "stablehlo.exponential_minus_one",
    sqrt = "stablehlo.sqrt",
    rsqrt = "stablehlo.rsqrt",
    sin = "stablehlo.sine",
    cos = "stablehlo.cosine",
    tan = "stablehlo.tan",
    tanh = "stablehlo.tanh",
    sigmoid = "stablehlo.logistic",
    cbrt = "stablehlo.cbrt",
    bit_not = "stablehlo.not",
    erf = "chlo.erf",
    erfc = "chlo.erfc",
    asin = "chlo.asin",
    acos = "chlo.acos",
    atan = "chlo.atan",
    sinh = "chlo.sinh",
    cosh = "chlo.cosh",
    asinh = "chlo.asinh",
    acosh = "chlo.acosh",
    atanh = "chlo.atanh",
}

macro_rules! direct_binary {
    ($($name:ident = $op:literal,)*) => {$(
        pub(super) fn $name(t: &mut Text, of: &Equation<'_>) -> Value {
            let [x, y] = of.pair(t);
            t.same($op, &[&x, &y])
        }
    )*};
}

direct_binary! {
    add = "stablehlo.add",
    sub = "stablehlo.subtract",
    mul = "stablehlo.multiply",
    maximum = "stablehlo.maximum",
    minimum = "stablehlo.minimum",
    rem = "stablehlo.remainder",
    div = "stablehlo.divide",
    atan2 = "stablehlo.atan2",
    bit_and = "stablehlo.and",
    bit_or = "stablehlo.or",
    bit_xor = "stablehlo.xor",
    nextafter = "chlo.next_after",
}

macro_rules! comparisons {
    ($($name:ident = $order:ident,)*) => {$(
        pub(super) fn $name(t: &mut Text, of: &Equation<'_>) -> Value {
            let [x, y] = of.pair(t);
            t.compare(Order::$order, &x, &y)
        }
    )*};
}

comparisons! { eq = Eq, ne = Ne, lt = Lt, le = Le, gt = Gt, ge = Ge, }

pub(super) fn identity(_: &mut Text, of: &Equation<'_>) -> Value {
    of.x().clone()
}

pub(super) use identity as stop_gradient;

/// Integers stay as they are.
fn rounded(t: &mut Text, of: &Equation<'_>, op: &str) -> Value {
    match of.x().element.is_float() {
        true => t.unary(op, of.x()),
        false => of.x().clone(),
    }
}

pub(super) fn floor(t: &mut Text, of: &Equation<'_>) -> Value {
    rounded(t, of, "floor")
}

pub(super) fn ceil(t: &mut Text, of: &Equation<'_>) -> Value {
    rounded(t, of, "ceil")
}

pub(super) fn round(t: &mut Text, of: &Equation<'_>) -> Value {
    rounded(t, of, "round_nearest_even")
}

pub(super) fn trunc(t: &mut Text, of: &Equation<'_>) -> Value {
    let x = of.x();
    if !x.element.is_float() {
        return x.clone();
    }
    let magnitude = t.abs(x);
    let magnitude = t.unary("floor", &magnitude);
    with_sign_of(t, &magnitude, x)
}

/// Appends a number that is not negative with the sign of `x`. A zero of `x` keeps its sign, too.
fn with_sign_of(t: &mut Text, magnitude: &Value, x: &Value) -> Value {
    let negative = is_negative(t, x);
    let negated = t.neg(magnitude);
    t.select(&negative, &negated, magnitude)
}

/// Appends whether the sign bit of each float is set.
fn is_negative(t: &mut Text, x: &Value) -> Value {
    let bits = match x.element {
        Element::F32 => Element::I32,
        _ => Element::I64,
    };
    let bits = t.bitcast(x, bits);
    t.compare_to(Order::Lt, &bits, 0)
}

pub(super) fn relu(t: &mut Text, of: &Equation<'_>) -> Value {
    let zero = t.full_like(0, of.x());
    t.max(of.x(), &zero)
}

pub(super) fn square(t: &mut Text, of: &Equation<'_>) -> Value {
    t.mul(of.x(), of.x())
}

pub(super) fn reciprocal(t: &mut Text, of: &Equation<'_>) -> Value {
    t.over(1, of.x())
}

pub(super) fn exp2(t: &mut Text, of: &Equation<'_>) -> Value {
    let two = t.full_like(2, of.x());
    t.binary("power", &two, of.x())
}

/// Appends `log(x) / n`.
fn log_over(t: &mut Text, x: &Value, n: f64) -> Value {
    let log = t.log(x);
    let n = t.full_like(n, x);
    t.div(&log, &n)
}

pub(super) fn log2(t: &mut Text, of: &Equation<'_>) -> Value {
    log_over(t, of.x(), std::f64::consts::LN_2)
}

pub(super) fn log10(t: &mut Text, of: &Equation<'_>) -> Value {
    log_over(t, of.x(), std::f64::consts::LN_10)
}

/// Appends `log(1 + exp(x))` as `max(x, 0) + log(1 + exp(-|x|))`.
fn log_1_exp(t: &mut Text, x: &Value) -> Value {
    let zero = t.full_like(0, x);
    let line = t.max(x, &zero);
    let magnitude = t.abs(x);
    let magnitude = t.neg(&magnitude);
    let exp = t.exp(&magnitude);
    let rest = t.unary("log_plus_one", &exp);
    t.add(&line, &rest)
}

pub(super) fn softplus(t: &mut Text, of: &Equation<'_>) -> Value {
    log_1_exp(t, of.x())
}

pub(super) fn log_sigmoid(t: &mut Text, of: &Equation<'_>) -> Value {
    let x = t.neg(of.x());
    let y = log_1_exp(t, &x);
    t.neg(&y)
}

/// Appends `x`, or a bound below which a function of it does not change.
fn at_least(t: &mut Text, x: &Value, bound: f64) -> Value {
    let bound = t.full_like(bound, x);
    t.max(x, &bound)
}

/// `x P(x)`, with `P(x) = erfc(-x / sqrt(2)) / 2`.
pub(super) fn gelu(t: &mut Text, of: &Equation<'_>) -> Value {
    // Minus infinity times 0 would be NaN.
    let x = at_least(t, of.x(), -40.0);
    let scaled = t.times(&x, -std::f64::consts::FRAC_1_SQRT_2);
    let tail = t.same("chlo.erfc", &[&scaled]);
    let half = t.times(&x, 0.5);
    t.mul(&half, &tail)
}

/// `x (1 + tanh(u)) / 2 = x sigmoid(2 u)`, with `u = sqrt(2 / pi) (x + 0.044715 x^3)`.
pub(super) fn gelu_tanh(t: &mut Text, of: &Equation<'_>) -> Value {
    let x = at_least(t, of.x(), -40.0);
    let square = t.mul(&x, &x);
    let factor = t.times(&square, 0.044715);
    let factor = t.plus(&factor, 1);
    let u = t.mul(&x, &factor);
    let u = t.times(&u, 2.0 * (2.0 / std::f64::consts::PI).sqrt());
    let weight = t.unary("logistic", &u);
    t.mul(&x, &weight)
}

pub(super) fn silu(t: &mut Text, of: &Equation<'_>) -> Value {
    let x = at_least(t, of.x(), -800.0);
    let weight = t.unary("logistic", &x);
    t.mul(&x, &weight)
}

/// `x tanh(log(1 + e)) = x n / (n + 2)`, with `e = exp(x)` and `n = e (e + 2)`.
pub(super) fn mish(t: &mut Text, of: &Equation<'_>) -> Value {
    let x = at_least(t, of.x(), -800.0);
    let e = t.exp(&x);
    let above = t.plus(&e, 2);
    let n = t.mul(&e, &above);
    let above = t.plus(&n, 2);
    let weight = t.div(&n, &above);
    let y = t.mul(&x, &weight);
    // The weight is 1 before `n` overflows.
    let large = t.compare_to(Order::Gt, &x, 20);
    t.select(&large, &x, &y)
}

pub(super) fn softsign(t: &mut Text, of: &Equation<'_>) -> Value {
    let x = of.x();
    let magnitude = t.abs(x);
    let divisor = t.plus(&magnitude, 1);
    let y = t.div(x, &divisor);
    let sign = t.unary("sign", x);
    let infinite = t.compare_to(Order::Eq, &magnitude, f64::INFINITY);
    t.select(&infinite, &sign, &y)
}

pub(super) fn selu(t: &mut Text, of: &Equation<'_>) -> Value {
    const SCALE: f64 = 1.0507009873554805;
    const ALPHA: f64 = 1.6732632423543772;
    let x = of.x();
    let above = t.times(x, SCALE);
    let below = t.unary("exponential_minus_one", x);
    let below = t.times(&below, SCALE * ALPHA);
    let positive = t.compare_to(Order::Gt, x, 0);
    t.select(&positive, &above, &below)
}

/// Appends `x` limited to a range.
fn limited(t: &mut Text, x: &Value, low: impl Into<Number>, high: impl Into<Number>) -> Value {
    let low = t.full_like(low, x);
    let high = t.full_like(high, x);
    t.same("stablehlo.clamp", &[&low, x, &high])
}

pub(super) fn relu6(t: &mut Text, of: &Equation<'_>) -> Value {
    limited(t, of.x(), 0, 6)
}

pub(super) fn hard_tanh(t: &mut Text, of: &Equation<'_>) -> Value {
    limited(t, of.x(), -1, 1)
}

pub(super) fn hard_sigmoid(t: &mut Text, of: &Equation<'_>) -> Value {
    let x = t.plus(of.x(), 3);
    let six = t.full_like(6, &x);
    let y = t.div(&x, &six);
    limited(t, &y, 0, 1)
}

pub(super) fn hard_swish(t: &mut Text, of: &Equation<'_>) -> Value {
    let weight = hard_sigmoid(t, of);
    let y = t.mul(of.x(), &weight);
    // Minus infinity times 0 would be NaN.
    let low = t.compare_to(Order::Le, of.x(), -3);
    t.replace(&low, 0, &y)
}

pub(super) fn is_nan(t: &mut Text, of: &Equation<'_>) -> Value {
    t.is_nan(of.x())
}

pub(super) fn is_finite(t: &mut Text, of: &Equation<'_>) -> Value {
    t.is_finite(of.x())
}

pub(super) fn is_infinite(t: &mut Text, of: &Equation<'_>) -> Value {
    let magnitude = t.abs(of.x());
    t.compare_to(Order::Eq, &magnitude, f64::INFINITY)
}

pub(super) fn signbit(t: &mut Text, of: &Equation<'_>) -> Value {
    is_negative(t, of.x())
}

/// The power of floats is that of StableHLO, and that of integers a product of squares.
pub(super) fn pow(t: &mut Text, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(t);
    if x.element.is_float() {
        return t.binary("power", &x, &y);
    }
    let one = t.full_like(1, &x);
    let zero = t.full_like(0, &y);
    let rest = t.max(&y, &zero);
    let states = t.while_loop::<()>(
        &[one.clone(), x.clone(), rest],
        |t, states| {
            let goes_on = t.compare_to(Order::Gt, &states[2], 0);
            let axes: Vec<usize> = (0..goes_on.rank()).collect();
            Ok(t.reduce("or", &goes_on, 0, &axes))
        },
        |t, states| {
            let [power, square, rest] = [0, 1, 2].map(|i| &states[i]);
            let bit = t.full_like(1, rest);
            let bit = t.and(rest, &bit);
            let is_odd = t.compare_to(Order::Eq, &bit, 1);
            let product = t.mul(power, square);
            let power = t.select(&is_odd, &product, power);
            let square = t.mul(square, square);
            let by = t.full_like(1, rest);
            let rest = t.binary("shift_right_logical", rest, &by);
            Ok(vec![power, square, rest])
        },
    );
    let power = states
        .into_iter()
        .flatten()
        .next()
        .expect("the loop has states");
    // 1 / x^n is 0, but for 1 and -1.
    let odd = t.and(&y, &one);
    let is_odd = t.compare_to(Order::Eq, &odd, 1);
    let is_one = t.compare_to(Order::Eq, &x, 1);
    let is_minus_one = t.compare_to(Order::Eq, &x, -1);
    let zero = t.full_like(0, &x);
    let sign = t.full_like(-1, &x);
    let sign = t.select(&is_odd, &sign, &one);
    let inverse = t.select(&is_minus_one, &sign, &zero);
    let inverse = t.select(&is_one, &one, &inverse);
    let negative = t.compare_to(Order::Lt, &y, 0);
    t.select(&negative, &inverse, &power)
}

pub(super) fn mod_floor(t: &mut Text, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(t);
    let rest = t.binary("remainder", &x, &y);
    let not_0 = t.compare_to(Order::Ne, &rest, 0);
    let signs = [&rest, &y].map(|x| t.compare_to(Order::Lt, x, 0));
    let differ = t.compare(Order::Ne, &signs[0], &signs[1]);
    let differ = t.and(&not_0, &differ);
    let above = t.add(&rest, &y);
    t.select(&differ, &above, &rest)
}

/// `most sqrt(1 + (least / most)^2)`.
pub(super) fn hypot(t: &mut Text, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(t).map(|x| t.abs(&x));
    let (least, most) = (t.min(&x, &y), t.max(&x, &y));
    let ratio = t.div(&least, &most);
    let square = t.mul(&ratio, &ratio);
    let square = t.plus(&square, 1);
    let root = t.sqrt(&square);
    let z = t.mul(&most, &root);
    // 0 / 0 and infinity / infinity would be NaN, and infinity beside NaN is infinity.
    let is_0 = t.compare_to(Order::Eq, &most, 0);
    let z = t.replace(&is_0, 0, &z);
    let infinite = [x, y].map(|x| t.compare_to(Order::Eq, &x, f64::INFINITY));
    let infinite = t.or(&infinite[0], &infinite[1]);
    t.replace(&infinite, f64::INFINITY, &z)
}

/// Appends `log(exp(x) + exp(y))`.
pub(super) fn log_add_exp(t: &mut Text, x: &Value, y: &Value) -> Value {
    let most = t.max(x, y);
    let gap = t.sub(x, y);
    let gap = t.abs(&gap);
    let gap = t.neg(&gap);
    let rest = t.exp(&gap);
    let rest = t.unary("log_plus_one", &rest);
    let z = t.add(&most, &rest);
    // The difference of infinities of one sign is NaN.
    let equal = t.compare(Order::Eq, x, y);
    let doubled = t.plus(x, std::f64::consts::LN_2);
    t.select(&equal, &doubled, &z)
}

pub(super) fn logaddexp(t: &mut Text, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(t);
    log_add_exp(t, &x, &y)
}

pub(super) fn elu(t: &mut Text, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(t);
    let below = t.unary("exponential_minus_one", &x);
    let below = t.mul(&y, &below);
    let positive = t.compare_to(Order::Gt, &x, 0);
    t.select(&positive, &x, &below)
}

pub(super) fn celu(t: &mut Text, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(t);
    let below = t.div(&x, &y);
    let below = t.unary("exponential_minus_one", &below);
    let below = t.mul(&y, &below);
    let positive = t.compare_to(Order::Gt, &x, 0);
    t.select(&positive, &x, &below)
}

pub(super) fn leaky_relu(t: &mut Text, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(t);
    let below = t.mul(&y, &x);
    let not_negative = t.compare_to(Order::Ge, &x, 0);
    t.select(&not_negative, &x, &below)
}

/// Appends `x log`, and 0 where `x` is 0 and `y` is a number.
fn times_log(t: &mut Text, x: &Value, y: &Value, log: &str) -> Value {
    let log = t.unary(log, y);
    let z = t.mul(x, &log);
    let is_0 = t.compare_to(Order::Eq, x, 0);
    let number = t.compare(Order::Eq, y, y);
    let is_0 = t.and(&is_0, &number);
    t.replace(&is_0, 0, &z)
}

pub(super) fn xlogy(t: &mut Text, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(t);
    times_log(t, &x, &y, "log")
}

pub(super) fn xlog1py(t: &mut Text, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(t);
    times_log(t, &x, &y, "log_plus_one")
}

/// Appends whether integers are numbers of bits that can be shifted out.
fn is_shift(t: &mut Text, y: &Value) -> Value {
    let low = t.compare_to(Order::Ge, y, 0);
    let high = t.compare_to(Order::Lt, y, y.element.width());
    t.and(&low, &high)
}

pub(super) fn shift_left(t: &mut Text, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(t);
    let inside = is_shift(t, &y);
    let z = t.binary("shift_left", &x, &y);
    let zero = t.full_like(0, &x);
    t.select(&inside, &z, &zero)
}

pub(super) fn shift_right(t: &mut Text, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(t);
    let inside = is_shift(t, &y);
    let all = t.full_like(y.element.width() - 1, &y);
    let by = t.select(&inside, &y, &all);
    t.binary("shift_right_arithmetic", &x, &by)
}

/// Euclid's algorithm on all elements at once.
pub(super) fn gcd(t: &mut Text, of: &Equation<'_>) -> Value {
    let states = of.pair(t);
    let states = t.while_loop::<()>(
        &states,
        |t, states| {
            let goes_on = t.compare_to(Order::Ne, &states[1], 0);
            let axes: Vec<usize> = (0..goes_on.rank()).collect();
            Ok(t.reduce("or", &goes_on, 0, &axes))
        },
        |t, states| {
            let [a, b] = [0, 1].map(|i| &states[i]);
            let ends = t.compare_to(Order::Eq, b, 0);
            let divisor = t.replace(&ends, 1, b);
            let rest = t.binary("remainder", a, &divisor);
            let next = t.select(&ends, a, b);
            let rest = t.replace(&ends, 0, &rest);
            Ok(vec![next, rest])
        },
    );
    let a = states
        .into_iter()
        .flatten()
        .next()
        .expect("the loop has states");
    t.abs(&a)
}

pub(super) fn select(t: &mut Text, of: &Equation<'_>) -> Value {
    let all = of.spread(t, 0..3);
    t.select(&all[0], &all[1], &all[2])
}

/// Floats become integers as in Rust: rounded towards 0, limited to the range, and 0 for NaN.
pub(super) fn cast(t: &mut Text, of: &Equation<'_>) -> Value {
    let (x, to) = (of.x(), of.out().element);
    match (x.element.is_float(), to) {
        (_, Element::I1) if x.element != Element::I1 => t.compare_to(Order::Ne, x, 0),
        // A number of 8 bits is limited before it is converted, where the limits are exact.
        (true, Element::I8 | Element::U8) => {
            let [low, high] = match to {
                Element::I8 => [i8::MIN.into(), i8::MAX.into()],
                _ => [0.0, f64::from(u8::MAX)],
            };
            let x = t.convert(x, Element::F64);
            let above = t.compare_to(Order::Gt, &x, high);
            let y = t.replace(&above, high, &x);
            let below = t.compare_to(Order::Lt, &x, low);
            let y = t.replace(&below, low, &y);
            let is_nan = t.is_nan(&x);
            let y = t.replace(&is_nan, 0, &y);
            let y = t.convert(&y, Element::I32);
            t.convert(&y, to)
        }
        (true, Element::I32 | Element::I64) => {
            let end = 2f64.powi(to.width() as i32 - 1);
            let y = t.convert(x, to);
            let above = t.compare_to(Order::Ge, x, end);
            let y = t.replace(&above, to.greatest(), &y);
            let below = t.compare_to(Order::Lt, x, -end);
            let y = t.replace(&below, to.least(), &y);
            let is_nan = t.is_nan(x);
            t.replace(&is_nan, 0, &y)
        }
        _ => t.convert(x, to),
    }
}

pub(super) use cast as cast_t;
