use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape, windows};
use crate::{Aval, DType, Fault, Op, Static, StaticArg, StaticKind};

methods! { sum_pool {
    /// Sum of the elements of each window that slides along the last axes.
    ///
    /// `window` has a length for each of the last 1 to 3 axes. `strides` is one number, or one for
    /// each of these axes. `padding` is one number, one for each axis, or one for each end, and the
    /// padding is 0. `..` pads so that the result has length `len / stride`, rounded up. Integers
    /// wrap.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
    /// assert_eq!(x.sum_pool(2, 2, 0).to_vec::<f32>(), [3.0, 7.0]);
    /// assert_eq!(x.sum_pool(3, 1, ..).to_vec::<f32>(), [3.0, 6.0, 9.0, 7.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the window has more axes than the tensor, is longer than an axis with its padding, or has
    /// a length less than 1; if a stride is less than 1, a padding is negative, or the dtype is
    /// `bool`.
    fn sum_pool(x: Data + Like, window: Static, strides: Static, padding: Static, mean: Switch(false));

    /// Mean of the elements of each window that slides along the last axes.
    ///
    /// As [`Tensor::sum_pool`], divided by the number of elements of a window, those in the padding
    /// included. The dtype is a float. The mean over whole axes is [`Tensor::mean`], as in
    /// `x.mean([2, 3])`.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 6.0]]);
    /// assert_eq!(x.avg_pool([2, 2], 2, 0).to_vec::<f32>(), [3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As for [`Tensor::sum_pool`], and if the dtype is not a float.
    fn avg_pool(x: Data + Like, window: Static, strides: Static, padding: Static, mean: Switch(true));
} }

/// The static arguments of `sum_pool` and its transpose.
pub(super) const STATICS: [StaticArg; 4] = [
    windows::POOL[0],
    windows::POOL[1],
    windows::POOL[2],
    StaticKind::KnownFlag.named("mean"),
];

/// `sum_pool[window, strides, padding, mean] x, like x`: the sum or mean of each window.
pub(super) static OP: Linear = Linear {
    name: "sum_pool",
    operands: Operands::Fixed(1, 1),
    statics: &STATICS,
    shape: |statics, args| {
        let x = shape::same(&args[0].shape, &args[1].shape)?;
        windows::pooled(statics, &x)
    },
    dtype,
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit(Op::SumPoolT, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::SumPool,
    count: Count::Pool { windows: 1 },
    facts: OpFacts::opaque(axes::POOLED),
    samples: &[
        "(x: f64[2, 2, 5]) { y = sum_pool[window=[2], strides=[2], padding=[0], mean=false] x, like x return y }",
        "(x: f64[3, 4, 5]) { y = sum_pool[window=[2, 3], strides=[1, 2], padding=[1, 0], mean=true] x, like x return y }",
        "(x: f64[5, 4]) { y = sum_pool[window=[3, 2], strides=2, padding=all, mean=true] x, like x return y }",
        "(x: f64[3, 3, 4]) { y = sum_pool[window=[2, 1, 2], strides=1, padding=[0, 1, 0, 0, 1, 2], mean=false] x, like x return y }",
        "(x: f64[4]) { y = sum_pool[window=3, strides=1, padding=0, mean=true] x, like x return y }",
        "(x: f64[]) { y = sum_pool[window=[], strides=[], padding=[], mean=true] x, like x return y }",
        "(x: f64[0, 4]) { y = sum_pool[window=[2], strides=2, padding=0, mean=false] x, like x return y }",
        "(x: f64[2, 0]) { y = sum_pool[window=[2], strides=1, padding=1, mean=false] x, like x return y }",
        "(x: i64[2, 6]) { y = sum_pool[window=[3], strides=3, padding=0, mean=false] x, like x return y }",
    ],
};

/// The dtype rule: a mean takes floats, a sum takes numbers.
pub(super) fn dtype(statics: &[Static], args: &[&Aval]) -> Result<Option<DType>, Fault> {
    let is_mean = statics.get(3).and_then(Static::bool) == Some(true);
    shape::number(args[0].dtype, !is_mean)
}

/// Returns the number that a sum over a window is divided by.
pub(super) fn divisor(of: &Application<'_>) -> f64 {
    match of.flag(3) {
        true => of.ints(0).iter().product::<i64>() as f64,
        false => 1.0,
    }
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut y = NdArray::zeros(of.out());
    for (at, window) in windows::windows(of.statics, &of.x().shape, of.out()) {
        let total: f64 = window.iter().map(|i| of.x().get(i)).sum();
        y.add(&at, total / divisor(of));
    }
    y
}
