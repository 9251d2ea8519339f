use super::nd_array::{Application, NdArray, indices};
use super::{Count, Kernel, Linear, OpFacts, Operands, Ops, axes, shape, windows};
use crate::{Op, StaticKind};

/// `upsample_t[factors] y, like x`: the sum of the elements that repeat each element of `x`.
///
/// This is the transpose of `upsample`.
pub(super) static OP: Linear = Linear {
    name: "upsample_t",
    operands: Operands::Fixed(1, 1),
    statics: &[StaticKind::Window.named("factors")],
    shape: |statics, args| {
        let y = windows::upsampled(&statics[0], &args[1].shape)?;
        shape::same(&y, &args[0].shape)?;
        Ok(args[1].shape.clone())
    },
    dtype: |_, args| shape::number(args[0].dtype, true),
    methods: &[],
    transpose: |b, eqn, ct| b.emit(Op::Upsample, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::UpsampleT,
    count: Count::Rows {
        element: Ops::new(1, 0),
        row: Ops::new(0, 0),
    },
    facts: OpFacts::opaque(axes::POOLED),
    samples: &[
        "(y: f64[2, 6], x: f64[2, 3]) { z = upsample_t[factors=[2]] y, like x return z }",
        "(y: f64[2, 3, 6], x: f64[2, 3, 2]) { z = upsample_t[factors=[1, 3]] y, like x return z }",
        "(y: f64[2, 2, 4], x: f64[1, 2, 2]) { z = upsample_t[factors=[2, 1, 2]] y, like x return z }",
        "(y: f64[], x: f64[]) { z = upsample_t[factors=[]] y, like x return z }",
        "(y: f64[0, 4], x: f64[0, 2]) { z = upsample_t[factors=[3, 2]] y, like x return z }",
        "(y: i64[6], x: i64[2]) { z = upsample_t[factors=3] y, like x return z }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut x = NdArray::zeros(of.out());
    let factors = of.ints(0);
    let first = of.rank() - factors.len();
    for at in indices(&of.x().shape) {
        let mut i = at.clone();
        for (i, factor) in i[first..].iter_mut().zip(factors) {
            *i /= *factor as usize;
        }
        x.add(&i, of.x().get(&at));
    }
    x
}
