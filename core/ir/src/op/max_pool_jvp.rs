use super::nd_array::{Application, NdArray};
use super::{Count, Jacobian, Kernel, OpFacts, axes, max_pool, shape, windows};
use crate::Op;

/// `max_pool_jvp[window, strides, padding] v, x`: the element of `v` where each window of `x` is
/// largest.
///
/// This is the Jacobian of `max_pool` at `x`, applied to `v`. Without an element, it is 0. It does
/// not vary with `x`.
pub(super) static OP: Jacobian = Jacobian {
    name: "max_pool_jvp",
    n_operands: 2,
    statics: &windows::POOL,
    shape: |statics, args| {
        let x = shape::same(&args[1].shape, &args[0].shape)?;
        windows::pooled(statics, &x)
    },
    tangent: |_, _, _| None,
    transpose: Op::MaxPoolVjp,
    kernel: Kernel::MaxPoolJvp,
    count: Count::Pool { windows: 2 },
    facts: OpFacts::opaque(axes::POOLED),
    domain: (-2.0, 2.0),
    samples: &[
        "(v: f64[2, 2, 5], x: f64[2, 2, 5]) { y = max_pool_jvp[window=[2], strides=[2], padding=[0]] v, x return y }",
        "(v: f64[3, 4, 5], x: f64[3, 4, 5]) { y = max_pool_jvp[window=[2, 3], strides=[1, 2], padding=[1, 0]] v, x return y }",
        "(v: f64[5, 4], x: f64[5, 4]) { y = max_pool_jvp[window=[3, 2], strides=2, padding=all] v, x return y }",
        "(v: f64[4], x: f64[4]) { y = max_pool_jvp[window=3, strides=1, padding=3] v, x return y }",
        "(v: f64[], x: f64[]) { y = max_pool_jvp[window=[], strides=[], padding=[]] v, x return y }",
        "(v: f64[0, 4], x: f64[0, 4]) { y = max_pool_jvp[window=[2], strides=2, padding=0] v, x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut y = NdArray::zeros(of.out());
    for (at, window) in windows::windows(of.statics, &of.y().shape, of.out()) {
        if let Some(i) = max_pool::taken(of.y(), &window) {
            y.add(&at, of.x().get(&window[i]));
        }
    }
    y
}
