use super::argmax::first_best;
use super::nd_array::{Application, NdArray};
use super::{
    Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, shape, windows,
};
use crate::Op;

methods! { max_pool {
    /// Largest element of each window that slides along the last axes. NaN if any is NaN.
    ///
    /// `window`, `strides` and `padding` are those of [`Tensor::sum_pool`]. The padding is below
    /// all elements: negative infinity, or the least integer. The first of equal largest elements,
    /// in row-major order, has the derivative.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 5.0, 2.0, 0.0], [3.0, 4.0, 9.0, 1.0]]);
    /// assert_eq!(x.max_pool([2, 2], 2, 0).to_vec::<f32>(), [5.0, 9.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As for [`Tensor::sum_pool`].
    fn max_pool(x: Data, window: Static, strides: Static, padding: Static);
} }

/// `max_pool[window, strides, padding] x`: the largest element of each window; NaN if there is one.
///
/// The derivative belongs to the first of equal largest elements.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "max_pool",
    operands: Operands::Fixed(1, 0),
    statics: &windows::POOL,
    shape: |statics, args| windows::pooled(statics, &args[0].shape),
    dtype: |_, args| shape::number(args[0].dtype, true),
    methods: METHODS,
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        Some(b.emit(Op::MaxPoolJvp, &eqn.attrs, &[dx[0]?, eqn.args[0]]))
    }),
    kernel: Kernel::MaxPool,
    count: Count::Pool { windows: 1 },
    facts: OpFacts::opaque(axes::POOLED),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 2, 5]) { y = max_pool[window=[2], strides=[2], padding=[0]] x return y }",
            "(x: f64[3, 4, 5]) { y = max_pool[window=[2, 3], strides=[1, 2], padding=[1, 0]] x return y }",
            "(x: f64[5, 4]) { y = max_pool[window=[3, 2], strides=2, padding=all] x return y }",
            "(x: f64[3, 3, 4]) { y = max_pool[window=[2, 1, 2], strides=1, padding=[0, 1, 0, 0, 1, 0]] x return y }",
            "(x: f64[4]) { y = max_pool[window=3, strides=1, padding=2] x return y }",
            "(x: f64[]) { y = max_pool[window=[], strides=[], padding=[]] x return y }",
            "(x: f64[0, 4]) { y = max_pool[window=[2], strides=2, padding=0] x return y }",
            "(x: f64[2, 0]) { y = max_pool[window=[1], strides=1, padding=0] x return y }",
            "(x: i64[2, 6]) { y = max_pool[window=[3], strides=3, padding=0] x return y }",
        ],
    ),
};

/// Returns the position of the element that a window of these elements takes, if there is one.
pub(super) fn taken(x: &NdArray, window: &[Vec<usize>]) -> Option<usize> {
    let elements: Vec<f64> = window.iter().map(|i| x.get(i)).collect();
    let is_nan = elements.iter().position(|x| x.is_nan());
    match elements.is_empty() {
        true => None,
        false => Some(is_nan.unwrap_or_else(|| first_best(&elements, |x, y| x > y))),
    }
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut y = NdArray::zeros(of.out());
    for (at, window) in windows::windows(of.statics, &of.x().shape, of.out()) {
        let greatest = taken(of.x(), &window).map(|i| of.x().get(&window[i]));
        y.add(&at, greatest.unwrap_or(f64::NEG_INFINITY));
    }
    y
}
