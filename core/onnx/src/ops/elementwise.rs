//! Elementwise ops.

use crate::ExportError;
use crate::equation::Equation;
use crate::graph::{Graph, Value, greatest, joint_shape, least};
use crate::proto::Attribute;
use gradloom_ir::DType;

macro_rules! direct {
    ($($name:ident = $op:literal,)*) => {$(
        pub(super) fn $name(g: &mut Graph, of: &Equation<'_>) -> Value {
            g.same($op, &[of.x()])
        }
    )*};
}

direct! {
    neg = "Neg",
    abs = "Abs",
    sign = "Sign",
    exp = "Exp",
    log = "Log",
    sqrt = "Sqrt",
    sin = "Sin",
    cos = "Cos",
    tan = "Tan",
    tanh = "Tanh",
    sigmoid = "Sigmoid",
    relu = "Relu",
    erf = "Erf",
    softplus = "Softplus",
    reciprocal = "Reciprocal",
    asin = "Asin",
    acos = "Acos",
    atan = "Atan",
    sinh = "Sinh",
    cosh = "Cosh",
    asinh = "Asinh",
    acosh = "Acosh",
    atanh = "Atanh",
}

macro_rules! rounding {
    ($($name:ident = $op:literal,)*) => {$(
        /// Integers stay as they are.
        pub(super) fn $name(g: &mut Graph, of: &Equation<'_>) -> Value {
            match of.x().dtype.is_float() {
                true => g.same($op, &[of.x()]),
                false => of.x().clone(),
            }
        }
    )*};
}

rounding! { floor = "Floor", ceil = "Ceil", round = "Round", }

macro_rules! direct_binary {
    ($($name:ident = $op:literal,)*) => {$(
        pub(super) fn $name(g: &mut Graph, of: &Equation<'_>) -> Value {
            let [x, y] = of.pair(g);
            g.binary($op, &x, &y)
        }
    )*};
}

direct_binary! { add = "Add", sub = "Sub", mul = "Mul", div = "Div", }

macro_rules! of_bools_or {
    ($($name:ident = $of_bools:literal $op:literal,)*) => {$(
        pub(super) fn $name(g: &mut Graph, of: &Equation<'_>) -> Value {
            let [x, y] = of.pair(g);
            g.binary(if x.dtype == DType::Bool { $of_bools } else { $op }, &x, &y)
        }
    )*};
}

of_bools_or! {
    maximum = "Or" "Max",
    minimum = "And" "Min",
    bit_and = "And" "BitwiseAnd",
    bit_or = "Or" "BitwiseOr",
    bit_xor = "Xor" "BitwiseXor",
}

macro_rules! orders {
    ($($name:ident = $op:literal,)*) => {$(
        pub(super) fn $name(g: &mut Graph, of: &Equation<'_>) -> Value {
            // ONNX has no order of bools.
            let [x, y] = of.pair(g).map(|x| numeric(g, &x));
            g.compare($op, &x, &y)
        }
    )*};
}

orders! { lt = "Less", le = "LessOrEqual", gt = "Greater", ge = "GreaterOrEqual", }

/// Appends `x` as numbers, if its elements are bools.
pub(super) fn numeric(g: &mut Graph, x: &Value) -> Value {
    match x.dtype {
        DType::Bool => g.convert(x, DType::I32),
        _ => x.clone(),
    }
}

pub(super) fn eq(g: &mut Graph, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(g);
    g.compare("Equal", &x, &y)
}

pub(super) fn ne(g: &mut Graph, of: &Equation<'_>) -> Value {
    let equal = eq(g, of);
    g.same("Not", &[&equal])
}

pub(super) fn identity(_: &mut Graph, of: &Equation<'_>) -> Value {
    of.x().clone()
}

pub(super) use {identity as sharding_constraint, identity as stop_gradient};

pub(super) fn bit_not(g: &mut Graph, of: &Equation<'_>) -> Value {
    let op = if of.x().dtype == DType::Bool {
        "Not"
    } else {
        "BitwiseNot"
    };
    g.same(op, &[of.x()])
}

pub(super) fn trunc(g: &mut Graph, of: &Equation<'_>) -> Value {
    let x = of.x();
    if !x.dtype.is_float() {
        return x.clone();
    }
    let magnitude = g.same("Abs", &[x]);
    let magnitude = g.same("Floor", &[&magnitude]);
    let sign = g.same("Sign", &[x]);
    g.binary("Mul", &sign, &magnitude)
}

pub(super) fn rsqrt(g: &mut Graph, of: &Equation<'_>) -> Value {
    let root = g.same("Sqrt", &[of.x()]);
    g.same("Reciprocal", &[&root])
}

pub(super) fn square(g: &mut Graph, of: &Equation<'_>) -> Value {
    g.binary("Mul", of.x(), of.x())
}

pub(super) fn cbrt(g: &mut Graph, of: &Equation<'_>) -> Value {
    let magnitude = g.same("Abs", &[of.x()]);
    let root = g.with("Pow", &magnitude, 1.0 / 3.0);
    let sign = g.same("Sign", &[of.x()]);
    g.binary("Mul", &sign, &root)
}

pub(super) fn exp2(g: &mut Graph, of: &Equation<'_>) -> Value {
    let two = g.number(of.x().dtype, 2i64);
    g.binary("Pow", &two, of.x())
}

fn log_over(g: &mut Graph, x: &Value, n: f64) -> Value {
    let log = g.same("Log", &[x]);
    g.with("Div", &log, n)
}

pub(super) fn log2(g: &mut Graph, of: &Equation<'_>) -> Value {
    log_over(g, of.x(), std::f64::consts::LN_2)
}

pub(super) fn log10(g: &mut Graph, of: &Equation<'_>) -> Value {
    log_over(g, of.x(), std::f64::consts::LN_10)
}

/// Appends `log(1 + x)`, also for small `x`: with `u = 1 + x`, rounded, it is `log(u) x / (u - 1)`.
///
/// Goldberg: What Every Computer Scientist Should Know About Floating-Point Arithmetic, theorem 4, 1991.
fn log_1p(g: &mut Graph, x: &Value) -> Value {
    let u = g.with("Add", x, 1i64);
    let gap = g.with("Sub", &u, 1i64);
    let log = g.same("Log", &[&u]);
    let ratio = g.binary("Div", x, &gap);
    let y = g.binary("Mul", &log, &ratio);
    let is_small = g.compare_with("Equal", &gap, 0i64);
    let y = g.select(&is_small, x, &y);
    let is_infinite = g.compare_with("Equal", &u, f64::INFINITY);
    g.select(&is_infinite, x, &y)
}

/// Appends `exp(x) - 1`, also for small `x`: with `u = exp(x)`, rounded, it is `(u - 1) x / log(u)`.
///
/// Higham: Accuracy and Stability of Numerical Algorithms, section 1.14.1, 2002.
fn exp_m1(g: &mut Graph, x: &Value) -> Value {
    let u = g.same("Exp", &[x]);
    let gap = g.with("Sub", &u, 1i64);
    let log = g.same("Log", &[&u]);
    let ratio = g.binary("Div", x, &log);
    let y = g.binary("Mul", &gap, &ratio);
    // The formula is for numbers near 0; others have no rounding to undo.
    let magnitude = g.same("Abs", &[x]);
    let is_large = g.compare_with("Greater", &magnitude, 1i64);
    let y = g.select(&is_large, &gap, &y);
    let is_small = g.compare_with("Equal", &gap, 0i64);
    g.select(&is_small, x, &y)
}

pub(super) fn log1p(g: &mut Graph, of: &Equation<'_>) -> Value {
    log_1p(g, of.x())
}

pub(super) fn expm1(g: &mut Graph, of: &Equation<'_>) -> Value {
    exp_m1(g, of.x())
}

/// `x / (1 + |x|)`, and the sign of infinities.
pub(super) fn softsign(g: &mut Graph, of: &Equation<'_>) -> Value {
    let x = of.x();
    let magnitude = g.same("Abs", &[x]);
    let divisor = g.with("Add", &magnitude, 1i64);
    let y = g.binary("Div", x, &divisor);
    let sign = g.same("Sign", &[x]);
    let infinite = g.compare_with("Equal", &magnitude, f64::INFINITY);
    g.select(&infinite, &sign, &y)
}

/// Appends `x`, or a bound below which a function of it is 0: minus infinity times 0 would be NaN.
fn at_least(g: &mut Graph, x: &Value, bound: i64) -> Value {
    g.with("Max", x, bound)
}

/// `x (1 + erf(x / sqrt(2))) / 2`. The constants of `Gelu` are those of `f32`.
pub(super) fn gelu(g: &mut Graph, of: &Equation<'_>) -> Value {
    let x = at_least(g, of.x(), -40);
    if x.dtype == DType::F32 {
        return g.same("Gelu", &[&x]);
    }
    let scaled = g.with("Mul", &x, std::f64::consts::FRAC_1_SQRT_2);
    let erf = g.same("Erf", &[&scaled]);
    let weight = g.with("Add", &erf, 1i64);
    let half = g.with("Mul", &x, 0.5);
    g.binary("Mul", &half, &weight)
}

/// `x sigmoid(2 u)`, with `u = sqrt(2 / pi) (x + 0.044715 x^3)`. The constants of `Gelu` are those of `f32`.
pub(super) fn gelu_tanh(g: &mut Graph, of: &Equation<'_>) -> Value {
    let x = at_least(g, of.x(), -40);
    if x.dtype == DType::F32 {
        let by = [Attribute::Text("approximate", "tanh")];
        return g.node("Gelu", &[&x], &by, (x.dtype, &x.shape));
    }
    let square = g.binary("Mul", &x, &x);
    let factor = g.with("Mul", &square, 0.044715);
    let factor = g.with("Add", &factor, 1i64);
    let u = g.binary("Mul", &x, &factor);
    let u = g.with("Mul", &u, 2.0 * (2.0 / std::f64::consts::PI).sqrt());
    let weight = g.same("Sigmoid", &[&u]);
    g.binary("Mul", &x, &weight)
}

pub(super) fn silu(g: &mut Graph, of: &Equation<'_>) -> Value {
    let x = at_least(g, of.x(), -800);
    let weight = g.same("Sigmoid", &[&x]);
    g.binary("Mul", &x, &weight)
}

pub(super) fn mish(g: &mut Graph, of: &Equation<'_>) -> Value {
    let x = at_least(g, of.x(), -800);
    g.same("Mish", &[&x])
}

pub(super) fn log_sigmoid(g: &mut Graph, of: &Equation<'_>) -> Value {
    let x = g.same("Neg", &[of.x()]);
    let y = g.same("Softplus", &[&x]);
    g.same("Neg", &[&y])
}

/// Appends `x` where it is greater than 0, and `factor (exp(scaled) - 1)` elsewhere.
fn exponential_below(g: &mut Graph, x: &Value, scaled: &Value, factor: &Value) -> Value {
    let below = exp_m1(g, scaled);
    let below = g.binary("Mul", factor, &below);
    let positive = g.compare_with("Greater", x, 0i64);
    g.select(&positive, x, &below)
}

pub(super) fn selu(g: &mut Graph, of: &Equation<'_>) -> Value {
    const SCALE: f64 = 1.0507009873554805;
    const ALPHA: f64 = 1.6732632423543772;
    let alpha = g.number(of.x().dtype, ALPHA);
    let y = exponential_below(g, of.x(), of.x(), &alpha);
    g.with("Mul", &y, SCALE)
}

pub(super) fn elu(g: &mut Graph, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(g);
    exponential_below(g, &x, &x, &y)
}

pub(super) fn celu(g: &mut Graph, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(g);
    let scaled = g.binary("Div", &x, &y);
    exponential_below(g, &x, &scaled, &y)
}

pub(super) fn leaky_relu(g: &mut Graph, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(g);
    let below = g.binary("Mul", &y, &x);
    let not_negative = g.compare_with("GreaterOrEqual", &x, 0i64);
    g.select(&not_negative, &x, &below)
}

fn limited(g: &mut Graph, x: &Value, low: i64, high: i64) -> Value {
    let [low, high] = [low, high].map(|n| g.number(x.dtype, n));
    g.same("Clip", &[x, &low, &high])
}

pub(super) fn relu6(g: &mut Graph, of: &Equation<'_>) -> Value {
    limited(g, of.x(), 0, 6)
}

pub(super) fn hard_tanh(g: &mut Graph, of: &Equation<'_>) -> Value {
    limited(g, of.x(), -1, 1)
}

pub(super) fn hard_sigmoid(g: &mut Graph, of: &Equation<'_>) -> Value {
    let x = g.with("Add", of.x(), 3i64);
    let y = g.with("Div", &x, 6i64);
    limited(g, &y, 0, 1)
}

pub(super) fn hard_swish(g: &mut Graph, of: &Equation<'_>) -> Value {
    let weight = hard_sigmoid(g, of);
    let y = g.binary("Mul", of.x(), &weight);
    // Minus infinity times 0 would be NaN.
    let low = g.compare_with("LessOrEqual", of.x(), -3i64);
    g.replace(&low, 0i64, &y)
}

pub(super) fn is_nan(g: &mut Graph, of: &Equation<'_>) -> Value {
    let equal = g.compare("Equal", of.x(), of.x());
    g.same("Not", &[&equal])
}

pub(super) fn is_finite(g: &mut Graph, of: &Equation<'_>) -> Value {
    let magnitude = g.same("Abs", &[of.x()]);
    g.compare_with("Less", &magnitude, f64::INFINITY)
}

pub(super) fn is_infinite(g: &mut Graph, of: &Equation<'_>) -> Value {
    let magnitude = g.same("Abs", &[of.x()]);
    g.compare_with("Equal", &magnitude, f64::INFINITY)
}

pub(super) fn pow(g: &mut Graph, of: &Equation<'_>) -> Result<Value, ExportError> {
    let [x, y] = of.pair(g);
    match x.dtype.is_float() {
        true => Ok(g.binary("Pow", &x, &y)),
        false => of.refused("runtimes compute the power of integers in floats"),
    }
}

/// Appends the remainder with the sign of the dividend.
fn remainder(g: &mut Graph, x: &Value, y: &Value) -> Value {
    let shape = joint_shape(&x.shape, &y.shape);
    g.node(
        "Mod",
        &[x, y],
        &[Attribute::Int("fmod", 1)],
        (x.dtype, &shape),
    )
}

pub(super) fn rem(g: &mut Graph, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(g);
    remainder(g, &x, &y)
}

pub(super) fn mod_floor(g: &mut Graph, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(g);
    if !x.dtype.is_float() {
        return g.binary("Mod", &x, &y);
    }
    let rest = remainder(g, &x, &y);
    let is_0 = g.compare_with("Equal", &rest, 0i64);
    let signs = [&rest, &y].map(|x| g.compare_with("Less", x, 0i64));
    let differ = g.binary("Xor", &signs[0], &signs[1]);
    let above = g.binary("Add", &rest, &y);
    let moved = g.select(&differ, &above, &rest);
    g.select(&is_0, &rest, &moved)
}

/// `most sqrt(1 + (least / most)^2)`.
pub(super) fn hypot(g: &mut Graph, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(g).map(|x| g.same("Abs", &[&x]));
    let [low, high] = ["Min", "Max"].map(|op| g.binary(op, &x, &y));
    let ratio = g.binary("Div", &low, &high);
    let square = g.binary("Mul", &ratio, &ratio);
    let square = g.with("Add", &square, 1i64);
    let root = g.same("Sqrt", &[&square]);
    let z = g.binary("Mul", &high, &root);
    // 0 / 0 and infinity / infinity would be NaN, and infinity beside NaN is infinity.
    let is_0 = g.compare_with("Equal", &high, 0i64);
    let z = g.replace(&is_0, 0i64, &z);
    let infinite = [x, y].map(|x| g.compare_with("Equal", &x, f64::INFINITY));
    let infinite = g.binary("Or", &infinite[0], &infinite[1]);
    g.replace(&infinite, f64::INFINITY, &z)
}

/// `max(x, y) + log(1 + exp(-|x - y|))`.
pub(super) fn logaddexp(g: &mut Graph, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(g);
    let most = g.binary("Max", &x, &y);
    let gap = g.binary("Sub", &x, &y);
    let gap = g.same("Abs", &[&gap]);
    let gap = g.same("Neg", &[&gap]);
    let rest = g.same("Exp", &[&gap]);
    let rest = log_1p(g, &rest);
    let z = g.binary("Add", &most, &rest);
    // The difference of infinities of one sign is NaN.
    let equal = g.compare("Equal", &x, &y);
    let doubled = g.with("Add", &x, std::f64::consts::LN_2);
    g.select(&equal, &doubled, &z)
}

/// Appends `x log`, and 0 where `x` is 0 and `y` is a number.
fn times_log(g: &mut Graph, x: &Value, y: &Value, log: &Value) -> Value {
    let z = g.binary("Mul", x, log);
    let is_0 = g.compare_with("Equal", x, 0i64);
    let is_number = g.compare("Equal", y, y);
    let is_0 = g.binary("And", &is_0, &is_number);
    g.replace(&is_0, 0i64, &z)
}

pub(super) fn xlogy(g: &mut Graph, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(g);
    let log = g.same("Log", &[&y]);
    times_log(g, &x, &y, &log)
}

pub(super) fn xlog1py(g: &mut Graph, of: &Equation<'_>) -> Value {
    let [x, y] = of.pair(g);
    let log = log_1p(g, &y);
    times_log(g, &x, &y, &log)
}

pub(super) fn select(g: &mut Graph, of: &Equation<'_>) -> Value {
    let all = of.promoted(g);
    g.select(&all[0], &all[1], &all[2])
}

/// Floats become integers as in Rust: rounded towards 0, limited to the range, and 0 for NaN.
pub(super) fn cast(g: &mut Graph, of: &Equation<'_>) -> Value {
    let (x, to) = (of.x(), of.dtype());
    if !x.dtype.is_float() || !to.is_integer() {
        return g.convert(x, to);
    }
    let end = 2f64.powi(to.size() as i32 * 8 - 1);
    // ONNX leaves open which integers numbers outside of the range become.
    let above = g.compare_with("GreaterOrEqual", x, end);
    let below = g.compare_with("Less", x, -end);
    let is_number = g.compare("Equal", x, x);
    let outside = g.binary("Or", &above, &below);
    let inside = g.same("Not", &[&outside]);
    let inside = g.binary("And", &inside, &is_number);
    let zero = g.number(x.dtype, 0i64);
    let y = g.select(&inside, x, &zero);
    let y = g.convert(&y, to);
    let y = g.replace(&above, greatest(to), &y);
    g.replace(&below, least(to), &y)
}

pub(super) use cast as cast_t;
