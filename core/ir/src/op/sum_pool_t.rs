use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape, sum_pool, windows};
use crate::Op;

/// `sum_pool_t[window, strides, padding, mean] y, like x`: each window's element, added to all of
/// the window.
///
/// This is the transpose of `sum_pool`.
pub(super) static OP: Linear = Linear {
    name: "sum_pool_t",
    operands: Operands::Fixed(1, 1),
    statics: &sum_pool::STATICS,
    shape: |statics, args| {
        let y = windows::pooled(statics, &args[1].shape)?;
        shape::same(&y, &args[0].shape)?;
        Ok(args[1].shape.clone())
    },
    dtype: sum_pool::dtype,
    methods: &[],
    transpose: |b, eqn, ct| b.emit(Op::SumPool, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::SumPoolT,
    count: Count::Pool { windows: 0 },
    facts: OpFacts::opaque(axes::POOLED),
    samples: &[
        "(y: f64[2, 2, 2], x: f64[2, 2, 5]) { z = sum_pool_t[window=[2], strides=[2], padding=[0], mean=false] y, like x return z }",
        "(y: f64[3, 5, 2], x: f64[3, 4, 5]) { z = sum_pool_t[window=[2, 3], strides=[1, 2], padding=[1, 0], mean=true] y, like x return z }",
        "(y: f64[3, 2], x: f64[5, 4]) { z = sum_pool_t[window=[3, 2], strides=2, padding=all, mean=true] y, like x return z }",
        "(y: f64[], x: f64[]) { z = sum_pool_t[window=[], strides=[], padding=[], mean=false] y, like x return z }",
        "(y: f64[0, 2], x: f64[0, 4]) { z = sum_pool_t[window=[2], strides=2, padding=0, mean=false] y, like x return z }",
        "(y: i64[2, 2], x: i64[2, 6]) { z = sum_pool_t[window=[3], strides=3, padding=0, mean=false] y, like x return z }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut x = NdArray::zeros(of.out());
    for (at, window) in windows::windows(of.statics, of.out(), &of.x().shape) {
        for i in window {
            x.add(&i, of.x().get(&at) / sum_pool::divisor(of));
        }
    }
    x
}
