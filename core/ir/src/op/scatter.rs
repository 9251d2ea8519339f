use super::nd_array::{Application, NdArray};
use super::take::{AsAlong, places, written};
use super::{Fails, Kernel, OpFacts, Update, axes, lanes, shape};
use crate::{Aval, Builder, DType, Dim, Eqn, Fault, Op, Shape, Static, StaticKind, Var};

methods! { scatter {
    /// The tensor with the slices at the given indices of an axis replaced by `updates`.
    ///
    /// The updates have the shape of [`Tensor::take`] with the same indices. The last of equal indices
    /// wins. Indices count from the end if they are negative. An index out of range is an error when
    /// the value is computed.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
    /// let y = x.scatter_set(&Tensor::from([2i64, 0]), &Tensor::from([7.0f32, 8.0]), 0);
    /// assert_eq!(y.to_vec::<f32>(), [8.0, 2.0, 7.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range, the indices are not integers, the updates do not have the shape of
    /// the slices, or the dtypes of tensor and updates differ.
    fn scatter_set(x: Data + Like, indices: Data, updates: Data + Like, axis: Static, along: Switch(false), set: Switch(true));
    /// The tensor with `updates` added to the slices at the given indices of an axis.
    ///
    /// Updates of equal indices add up. Otherwise as [`Tensor::scatter_set`]. Takes numbers.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
    /// let y = x.scatter_add(&Tensor::from([2i64, 2]), &Tensor::from([10.0f32, 20.0]), 0);
    /// assert_eq!(y.to_vec::<f32>(), [1.0, 2.0, 33.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As [`Tensor::scatter_set`], or if the dtype is `bool`.
    fn scatter_add(x: Data + Like, indices: Data, updates: Data + Like, axis: Static, along: Switch(false), set: Switch(false));
    /// The tensor with elements of each row along an axis replaced, at the indices of that row.
    ///
    /// The indices have the rank of the tensor, and may have length 1 along the other axes. The updates
    /// have the shape of [`Tensor::take_along_axis`] with the same indices. Otherwise as
    /// [`Tensor::scatter_set`].
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let y = x.put_along_axis(&Tensor::from([[1i64], [0]]), &Tensor::from([[7.0f32], [8.0]]), 1);
    /// assert_eq!(y.to_vec::<f32>(), [1.0, 7.0, 8.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As [`Tensor::scatter_set`].
    fn put_along_axis(x: Data + Like, indices: Data, updates: Data + Like, axis: Static, along: Switch(true), set: Switch(true));
    /// The tensor with updates added to elements of each row along an axis.
    ///
    /// Updates of equal indices add up. Otherwise as [`Tensor::put_along_axis`]. Takes numbers.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let y = x.add_along_axis(&Tensor::from([[1i64], [0]]), &Tensor::from([[7.0f32], [8.0]]), 1);
    /// assert_eq!(y.to_vec::<f32>(), [1.0, 9.0, 11.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As [`Tensor::scatter_set`], or if the dtype is `bool`.
    fn add_along_axis(x: Data + Like, indices: Data, updates: Data + Like, axis: Static, along: Switch(true), set: Switch(false));
} }

/// `scatter[axis, along, set] x, i, u, like x, like u`: `x` with `u` written or added at the indices `i`.
///
/// The last of equal indices wins if elements are written. `axis` and `along` are as in `take`.
pub(super) static OP: Update = Update {
    name: "scatter",
    n_data: 3,
    statics: &[
        StaticKind::Axis.named("axis"),
        StaticKind::KnownFlag.named("along"),
        StaticKind::KnownFlag.named("set"),
    ],
    shape: |statics, args| {
        shape::same(&args[2].shape, &args[4].shape)?;
        updated(statics, args[3], args)
    },
    dtype: |_, args| updated_dtype(args),
    // With `set`, a later update hides earlier ones: `last` of `take` and `take_t`.
    read: Op::Take,
    place: Op::TakeT,
    methods: METHODS,
    kernel: Kernel::Scatter,
    facts: OpFacts::opaque(axes::opaque(|b, of| lanes::indexed(b, of, false, to_along)))
        .moves()
        .fails(Fails::Labels(Op::Scatter))
        .aval_of(Update::aval_of),
    samples: &[
        "(x: f64[3, 2], i: i64[4], u: f64[4, 2]) { y = scatter[axis=0, along=false, set=true] x, i, u, like x, like u return y }",
        "(x: f64[3, 2], i: i64[4], u: f64[4, 2]) { y = scatter[axis=0, along=false, set=false] x, i, u, like x, like u return y }",
        "(x: f64[2, 3, 2], i: i32[2, 1], u: f64[2, 2, 1, 2]) { y = scatter[axis=-2, along=false, set=true] x, i, u, like x, like u return y }",
        "(x: f64[4], i: i64[], u: f64[]) { y = scatter[axis=0, along=false, set=false] x, i, u, like x, like u return y }",
        "(x: f64[4], i: i64[0], u: f64[0]) { y = scatter[axis=0, along=false, set=true] x, i, u, like x, like u return y }",
        "(x: f64[2, 4], i: i64[2, 5], u: f64[2, 5]) { y = scatter[axis=1, along=true, set=true] x, i, u, like x, like u return y }",
        "(x: f64[3, 2], i: i32[4, 1], u: f64[4, 2]) { y = scatter[axis=0, along=true, set=false] x, i, u, like x, like u return y }",
        "(x: bool[3, 2], i: i32[2], u: bool[2, 2]) { y = scatter[axis=0, along=false, set=true] x, i, u, like x, like u return y }",
        "(x: i32[3], i: i32[5], u: i32[5]) { y = scatter[axis=0, along=false, set=false] x, i, u, like x, like u return y }",
    ],
};

/// The shape rule of ops on a tensor, indices and updates.
pub(super) fn updated(statics: &[Static], like: &Aval, args: &[&Aval]) -> Result<Shape, Fault> {
    let x = shape::same(&args[0].shape, &like.shape)?;
    written(statics, &x, args[1], &args[2].shape)?;
    if let (Some(true), Some(dims), Some(i)) = (statics[1].bool(), x.dims(), args[1].shape.dims())
        && let Some(axis) = shape::known_axis(&statics[0], dims.len())?
    {
        // The tensor is not repeated.
        let i = super::take::with_length(i, axis, Dim::Known(1));
        shape::same(&x, &shape::broadcast(&x, &i)?)?;
    }
    Ok(x)
}

/// The dtype rule of ops on a tensor, indices and updates.
pub(super) fn updated_dtype(args: &[&Aval]) -> Result<Option<DType>, Fault> {
    shape::indices(args[1].dtype)?;
    shape::same_dtype(args[0].dtype, args[2].dtype)
}

/// With indices along one axis, for each row.
pub(super) fn to_along(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let along = AsAlong::new(b, eqn, eqn.args[0], eqn.args[1])?;
    let mut args = eqn.args.clone();
    for updates in [2, 4] {
        args[updates] = AsAlong::reshape(b, args[updates], &along.flat);
    }
    Some(vec![along.emit(b, eqn.op, args)])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut y = of.x().clone();
    for place in places(of, of.out(), &of.args[2].shape) {
        let old = if of.flag(2) { y.get(&place.whole) } else { 0.0 };
        y.add(&place.whole, of.args[2].get(&place.part) - old);
    }
    y
}
