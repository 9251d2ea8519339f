use super::nd_array::{Application, NdArray};
use super::{Count, Jacobian, Kernel, OpFacts, axes, max_pool, shape, windows};
use crate::Op;

/// `max_pool_vjp[window, strides, padding] v, x`: each element of `v`, added where its window of `x`
/// is largest.
///
/// This is the transpose of `max_pool_jvp`. The result has the shape of `x`.
pub(super) static OP: Jacobian = Jacobian {
    name: "max_pool_vjp",
    n_operands: 2,
    statics: &windows::POOL,
    shape: |statics, args| {
        let y = windows::pooled(statics, &args[1].shape)?;
        shape::same(&y, &args[0].shape)?;
        Ok(args[1].shape.clone())
    },
    tangent: |_, _, _| None,
    transpose: Op::MaxPoolJvp,
    kernel: Kernel::MaxPoolVjp,
    count: Count::Pool { windows: 0 },
    facts: OpFacts::opaque(axes::POOLED),
    domain: (-2.0, 2.0),
    samples: &[
        "(v: f64[2, 2, 2], x: f64[2, 2, 5]) { y = max_pool_vjp[window=[2], strides=[2], padding=[0]] v, x return y }",
        "(v: f64[3, 5, 2], x: f64[3, 4, 5]) { y = max_pool_vjp[window=[2, 3], strides=[1, 2], padding=[1, 0]] v, x return y }",
        "(v: f64[3, 2], x: f64[5, 4]) { y = max_pool_vjp[window=[3, 2], strides=2, padding=all] v, x return y }",
        "(v: f64[8], x: f64[4]) { y = max_pool_vjp[window=3, strides=1, padding=3] v, x return y }",
        "(v: f64[], x: f64[]) { y = max_pool_vjp[window=[], strides=[], padding=[]] v, x return y }",
        "(v: f64[0, 2], x: f64[0, 4]) { y = max_pool_vjp[window=[2], strides=2, padding=0] v, x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut x = NdArray::zeros(of.out());
    for (at, window) in windows::windows(of.statics, of.out(), &of.x().shape) {
        if let Some(i) = max_pool::taken(of.y(), &window) {
            x.add(&window[i], of.x().get(&at));
        }
    }
    x
}
