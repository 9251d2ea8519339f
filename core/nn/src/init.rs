//! Initial values of weights, by the names of the field.
//!
//! The shape of weights is `[outputs, inputs, window..]`. `fan_in` is the number of inputs times the size of
//! the window, `fan_out` that of outputs times the size of the window.
//!
//! ```
//! use gradloom::Key;
//! use gradloom_nn::init;
//!
//! let w = init::kaiming_normal(Key::new(0), [64, 100]);
//! let deviation = w.std(.., 0).item::<f32>();
//! assert!((deviation - (2.0f32 / 100.0).sqrt()).abs() < 5e-3);
//! ```
//!
//! # Panics
//!
//! All functions panic if the default dtype is not a float, and those with a fan if the rank is less than 2.

use gradloom::defaults;
use gradloom::prelude::*;

/// Returns `(fan_in, fan_out)` of weights.
fn fans(shape: &[usize]) -> (f64, f64) {
    let [outputs, inputs, window @ ..] = shape else {
        panic!("weights of shape {shape:?} have no fan: it takes `[outputs, inputs, window..]`")
    };
    let window: usize = window.iter().product();
    ((inputs * window) as f64, (outputs * window) as f64)
}

/// Returns uniform numbers from `-bound` to `bound`.
pub fn uniform<const N: usize>(key: Key, shape: [usize; N], bound: f64) -> Tensor {
    (key.uniform(shape, defaults::dtype()) * 2.0 - 1.0) * bound
}

/// Returns normal numbers of mean 0 and the given standard deviation.
pub fn normal<const N: usize>(key: Key, shape: [usize; N], deviation: f64) -> Tensor {
    key.normal(shape, defaults::dtype()) * deviation
}

/// Returns normal numbers of mean 0 between minus two and two, times `deviation`.
///
/// `deviation` is that of the normal numbers before those outside are left out, as in PyTorch.
pub fn truncated_normal<const N: usize>(key: Key, shape: [usize; N], deviation: f64) -> Tensor {
    // A uniform share of the probability from -2 to 2: P(-2) = 0.0227501.
    const BELOW: f64 = 0.022_750_131_948_179_21;
    let share = key.uniform(shape, DType::F64) * (1.0 - 2.0 * BELOW) + BELOW;
    (share.ndtri() * deviation).cast(defaults::dtype())
}

/// Returns uniform numbers of variance `2 / (fan_in + fan_out)`.
///
/// Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks, 2010.
pub fn xavier_uniform<const N: usize>(key: Key, shape: [usize; N]) -> Tensor {
    let (inputs, outputs) = fans(&shape);
    uniform(key, shape, (6.0 / (inputs + outputs)).sqrt())
}

/// Returns normal numbers of variance `2 / (fan_in + fan_out)`.
///
/// The source is that of [`xavier_uniform`].
pub fn xavier_normal<const N: usize>(key: Key, shape: [usize; N]) -> Tensor {
    let (inputs, outputs) = fans(&shape);
    normal(key, shape, (2.0 / (inputs + outputs)).sqrt())
}

/// Returns uniform numbers of variance `2 / fan_in`, for layers before a `relu`.
///
/// He, Zhang, Ren, Sun: Delving Deep into Rectifiers, 2015.
pub fn kaiming_uniform<const N: usize>(key: Key, shape: [usize; N]) -> Tensor {
    uniform(key, shape, (6.0 / fans(&shape).0).sqrt())
}

/// Returns normal numbers of variance `2 / fan_in`, for layers before a `relu`.
///
/// The source is that of [`kaiming_uniform`].
pub fn kaiming_normal<const N: usize>(key: Key, shape: [usize; N]) -> Tensor {
    normal(key, shape, (2.0 / fans(&shape).0).sqrt())
}

/// Returns normal numbers of variance `1 / fan_in`.
///
/// LeCun, Bottou, Orr, Müller: Efficient BackProp, 1998.
pub fn lecun_normal<const N: usize>(key: Key, shape: [usize; N]) -> Tensor {
    normal(key, shape, (1.0 / fans(&shape).0).sqrt())
}

/// Returns uniform numbers from `-1 / sqrt(fan_in)` to `1 / sqrt(fan_in)`: PyTorch's for linear layers and
/// convolutions.
pub fn fan_in_uniform<const N: usize>(key: Key, shape: [usize; N]) -> Tensor {
    uniform(key, shape, 1.0 / fans(&shape).0.sqrt())
}

/// Returns a matrix with orthonormal rows, or columns if there are fewer of them.
///
/// Saxe, McClelland, Ganguli: Exact solutions to the nonlinear dynamics of learning in deep linear neural
/// networks, 2014.
///
/// ```
/// use gradloom::{Key, Tensor};
/// use gradloom_nn::init;
///
/// let w = init::orthogonal(Key::new(0), [2, 3]);
/// let unit = w.matmul(&w.t());
/// assert!((unit - Tensor::from([[1.0f32, 0.0], [0.0, 1.0]])).abs().max(..).item::<f32>() < 1e-6);
/// ```
pub fn orthogonal(key: Key, [rows, columns]: [usize; 2]) -> Tensor {
    let is_wide = rows < columns;
    let (long, short) = (rows.max(columns), rows.min(columns));
    let (q, r) = key.normal([long, short], DType::F64).qr();
    // The signs make the distribution uniform.
    let q = q * r.diagonal(0).sign();
    let w = if is_wide { q.t() } else { q };
    w.cast(defaults::dtype())
}
