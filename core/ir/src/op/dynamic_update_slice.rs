use super::dynamic_slice::{Part, check_part, in_whole, zeros};
use super::nd_array::{Application, NdArray, indices};
use super::{Kernel, OpFacts, Update, axes, lanes, shape};
use crate::{Builder, Eqn, Op, StaticKind, Var};

methods! { dynamic_update_slice {
    /// The tensor with a part replaced, from an index of each leading axis that is computed.
    ///
    /// The part has the shape of `updates`, which has the rank of the tensor. The starts are as in
    /// [`Tensor::dynamic_slice`].
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([0.0f32, 1.0, 2.0, 3.0]);
    /// let y = x.dynamic_update_slice(&Tensor::scalar(1i64), &Tensor::from([8.0f32, 9.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.0, 8.0, 9.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis of the updates is longer than that of the tensor, an axis without a start differs, the
    /// dtypes of tensor and updates differ, or the starts are not integers.
    fn dynamic_update_slice(x: Data + Like, starts: Data, updates: Data + Like, set: Switch(true));
    /// The tensor with `updates` added to a part, from an index of each leading axis that is computed.
    ///
    /// As [`Tensor::dynamic_update_slice`]. Takes numbers.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([0.0f32, 1.0, 2.0, 3.0]);
    /// let y = x.dynamic_add_slice(&Tensor::scalar(1i64), &Tensor::from([8.0f32, 9.0]));
    /// assert_eq!(y.to_vec::<f32>(), [0.0, 9.0, 11.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As [`Tensor::dynamic_update_slice`], or if the dtype is `bool`.
    fn dynamic_add_slice(x: Data + Like, starts: Data, updates: Data + Like, set: Switch(false));
} }

/// `dynamic_update_slice[set] x, starts, u, like x, like u`: `x` with `u` written or added to a part.
pub(super) static OP: Update = Update {
    name: "dynamic_update_slice",
    n_data: 3,
    statics: &[StaticKind::KnownFlag.named("set")],
    shape: |_, args| {
        let x = shape::same(&args[0].shape, &args[3].shape)?;
        let part = shape::same(&args[2].shape, &args[4].shape)?;
        check_part(&x, &args[1].shape, &part)?;
        Ok(x)
    },
    dtype: |_, args| {
        shape::integer(args[1].dtype, "an integer for the starts")?;
        shape::same_dtype(args[0].dtype, args[2].dtype)
    },
    read: Op::DynamicSliceLike,
    place: Op::DynamicSliceT,
    methods: METHODS,
    kernel: Kernel::DynamicUpdateSlice,
    facts: OpFacts::composite(axes::opaque(lanes::simpler), decompose)
        .moves()
        .aval_of(Update::aval_of),
    samples: &[
        "(x: f64[5, 2], s: i64[1], u: f64[3, 2]) { y = dynamic_update_slice[set=true] x, s, u, like x, like u return y }",
        "(x: f64[4, 3], s: i32[2], u: f64[2, 2]) { y = dynamic_update_slice[set=true] x, s, u, like x, like u return y }",
        "(x: f64[4], s: i64[], u: f64[3]) { y = dynamic_update_slice[set=true] x, s, u, like x, like u return y }",
        "(x: f64[4, 3], s: i32[2], u: f64[2, 2]) { y = dynamic_update_slice[set=false] x, s, u, like x, like u return y }",
        "(x: i32[4], s: i64[], u: i32[3]) { y = dynamic_update_slice[set=false] x, s, u, like x, like u return y }",
        "(x: bool[4], s: i64[], u: bool[3]) { y = dynamic_update_slice[set=true] x, s, u, like x, like u return y }",
        "(x: f64[4, 3], s: i64[2], u: f64[2, 0]) { y = dynamic_update_slice[set=true] x, s, u, like x, like u return y }",
    ],
};

/// `scatter` along the last axis that has a start, in the part that the axes before it leave, and so on.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let [mut whole, starts, mut updates, ..] = eqn.args[..] else {
        return None;
    };
    let dtype = b.aval(whole).dtype?;
    let part = Part::new(b, whole, starts, updates)?;
    let likes = (0..=part.indices.len()).map(|axis| zeros(b, &part.cut(axis), dtype));
    let likes: Vec<Var> = likes.collect();
    let mut wholes = Vec::new();
    for (axis, i) in part.indices.iter().enumerate() {
        wholes.push(whole);
        if axis + 1 < part.indices.len() {
            let attrs = Part::attrs(b, axis);
            whole = b.emit(Op::Take, &attrs, &[whole, *i, likes[axis]]);
        }
    }
    let Some(last) = wholes.len().checked_sub(1) else {
        return Some(vec![match b.static_of(eqn.attrs[0]).bool() {
            Some(false) => b.emit(Op::Add, &[], &[whole, updates]),
            _ => updates,
        }]);
    };
    for (axis, whole) in wholes.into_iter().enumerate().rev() {
        // Updates of a part are written to the axes around it.
        let set = match axis == last {
            true => eqn.attrs[0],
            false => b.attr(true),
        };
        let attrs = [b.attr(axis as i64), b.attr(false), set];
        let args = [
            whole,
            part.indices[axis],
            updates,
            likes[axis],
            likes[axis + 1],
        ];
        updates = b.emit(Op::Scatter, &attrs, &args);
    }
    Some(vec![updates])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut y = of.x().clone();
    let updates = &of.args[2];
    for i in indices(&updates.shape) {
        let to = in_whole(of.y(), of.out(), &updates.shape, &i);
        let before = if of.flag(0) { y.get(&to) } else { 0.0 };
        y.add(&to, updates.get(&i) - before);
    }
    y
}
