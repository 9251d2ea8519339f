use super::nd_array::{Application, NdArray, indices};
use super::{Kernel, OpFacts, Update, axes, shape, slice};
use crate::{Op, StaticKind};

methods! { set_slice {
    /// The tensor with a range of each leading axis replaced by `updates`.
    ///
    /// The ranges are as in [`Tensor::slice`], and the updates have the shape of that slice.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([0.0f32, 1.0, 2.0, 3.0]);
    /// let y = x.set_slice([1], [-1], [1], &Tensor::from([8.0f32, 9.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.0, 8.0, 9.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If [`Tensor::slice`] refuses the ranges, or if the updates do not have the shape of the slice or
    /// the dtype of the tensor.
    fn set_slice(x: Data + Like, starts: Static, stops: Static, steps: Static, set: Switch(true), updates: Data + Like);
    /// The tensor with `updates` added to a range of each leading axis.
    ///
    /// As [`Tensor::set_slice`]. Takes numbers.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([0.0f32, 1.0, 2.0, 3.0]);
    /// let y = x.add_slice([1], [-1], [1], &Tensor::from([8.0f32, 9.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.0, 9.0, 11.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As [`Tensor::set_slice`], or if the dtype is `bool`.
    fn add_slice(x: Data + Like, starts: Static, stops: Static, steps: Static, set: Switch(false), updates: Data + Like);
} }

/// `set_slice[starts, stops, steps, set] x, u, like x, like u`: `x` with `u` written or added to a slice.
pub(super) static OP: Update = Update {
    name: "set_slice",
    n_data: 2,
    statics: &[
        StaticKind::Starts.named("starts"),
        StaticKind::Stops.named("stops"),
        StaticKind::Steps.named("steps"),
        StaticKind::KnownFlag.named("set"),
    ],
    shape: |statics, args| {
        let x = shape::same(&args[0].shape, &args[2].shape)?;
        let updates = shape::same(&args[1].shape, &args[3].shape)?;
        shape::same(&slice::sliced(&x, statics)?, &updates)?;
        Ok(x)
    },
    dtype: |_, args| shape::same_dtype(args[0].dtype, args[1].dtype),
    read: Op::Slice,
    place: Op::SliceT,
    methods: METHODS,
    kernel: Kernel::SetSlice,
    facts: OpFacts::opaque(axes::RANGES)
        .moves()
        .aval_of(Update::aval_of),
    samples: &[
        "(x: f64[3, 4], u: f64[2, 4]) { y = set_slice[starts=[1], stops=[3], steps=[1], set=true] x, u, like x, like u return y }",
        "(x: f64[3, 5], u: f64[2, 2]) { y = set_slice[starts=[0, -4], stops=[-1, 9223372036854775807], steps=[1, 3], set=true] x, u, like x, like u return y }",
        "(x: f64[3], u: f64[0]) { y = set_slice[starts=[2], stops=[2], steps=[2], set=true] x, u, like x, like u return y }",
        "(x: f64[3, 5], u: f64[2, 2]) { y = set_slice[starts=[2, 3], stops=[0, -5], steps=[-1, -2], set=true] x, u, like x, like u return y }",
        "(x: f64[], u: f64[]) { y = set_slice[starts=[], stops=[], steps=[], set=true] x, u, like x, like u return y }",
        "(x: f64[3, 5], u: f64[2, 2]) { y = set_slice[starts=[0, -4], stops=[-1, 9223372036854775807], steps=[1, 3], set=false] x, u, like x, like u return y }",
        "(x: f64[3, 5], u: f64[2, 2]) { y = set_slice[starts=[2, 3], stops=[0, -5], steps=[-1, -2], set=false] x, u, like x, like u return y }",
        "(x: i32[3], u: i32[0]) { y = set_slice[starts=[2], stops=[2], steps=[1], set=false] x, u, like x, like u return y }",
        "(x: bool[3], u: bool[2]) { y = set_slice[starts=[0], stops=[3], steps=[2], set=true] x, u, like x, like u return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut y = of.x().clone();
    for i in indices(&of.y().shape) {
        let to = slice::in_whole(of, of.out(), i.clone());
        let before = if of.flag(3) { y.get(&to) } else { 0.0 };
        y.add(&to, of.y().get(&i) - before);
    }
    y
}
