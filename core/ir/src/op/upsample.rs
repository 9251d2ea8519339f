use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape, windows};
use crate::{Op, StaticKind};

methods! { upsample {
    /// Each element repeated along the last axes: nearest-neighbour upsampling.
    ///
    /// `factors` has a number of repetitions for each of the last 1 to 3 axes. The dtype is a
    /// number.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0]]);
    /// let y = x.upsample([2, 2]);
    /// assert_eq!(y.to_vec::<f32>(), [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are more factors than axes, a factor is less than 1, or the dtype is `bool`.
    fn upsample(x: Data + Like, factors: Static);
} }

/// `upsample[factors] x, like x`: each element, repeated along the last axes.
pub(super) static OP: Linear = Linear {
    name: "upsample",
    operands: Operands::Fixed(1, 1),
    statics: &[StaticKind::Window.named("factors")],
    shape: |statics, args| {
        let x = shape::same(&args[0].shape, &args[1].shape)?;
        windows::upsampled(&statics[0], &x)
    },
    dtype: |_, args| shape::number(args[0].dtype, true),
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit(Op::UpsampleT, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::Upsample,
    count: Count::View,
    facts: OpFacts::view(axes::POOLED),
    samples: &[
        "(x: f64[2, 3]) { y = upsample[factors=[2]] x, like x return y }",
        "(x: f64[2, 3, 2]) { y = upsample[factors=[1, 3]] x, like x return y }",
        "(x: f64[1, 2, 2]) { y = upsample[factors=[2, 1, 2]] x, like x return y }",
        "(x: f64[3]) { y = upsample[factors=2] x, like x return y }",
        "(x: f64[]) { y = upsample[factors=[]] x, like x return y }",
        "(x: f64[0, 2]) { y = upsample[factors=[3, 2]] x, like x return y }",
        "(x: i64[2]) { y = upsample[factors=3] x, like x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let factors = of.ints(0);
    let first = of.rank() - factors.len();
    of.build(|mut i| {
        for (i, factor) in i[first..].iter_mut().zip(factors) {
            *i /= *factor as usize;
        }
        of.x().get(&i)
    })
}
