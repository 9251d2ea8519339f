use super::dynamic_slice::{check_part, in_whole, zeros};
use super::nd_array::{Application, NdArray, indices};
use super::{Kernel, OpFacts, Update, axes, lanes, shape};
use crate::{Builder, DType, Eqn, Op, Var};

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
    fn dynamic_update_slice(x: Data + Like, starts: Data, updates: Data + Like);
} }

/// `dynamic_update_slice x, starts, u, like x, like u`: `x` with a part replaced by `u`.
pub(super) static OP: Update = Update {
    name: "dynamic_update_slice",
    n_data: 3,
    statics: &[],
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
    adds: |_, _| false,
    read: Op::DynamicSliceLike,
    place: Op::DynamicSliceT,
    methods: METHODS,
    kernel: Kernel::DynamicUpdateSlice,
    facts: OpFacts::composite(axes::opaque(lanes::simpler), decompose),
    samples: &[
        "(x: f64[5, 2], s: i64[1], u: f64[3, 2]) { y = dynamic_update_slice x, s, u, like x, like u return y }",
        "(x: f64[4, 3], s: i32[2], u: f64[2, 2]) { y = dynamic_update_slice x, s, u, like x, like u return y }",
        "(x: f64[4], s: i64[], u: f64[3]) { y = dynamic_update_slice x, s, u, like x, like u return y }",
        "(x: bool[4], s: i64[], u: bool[3]) { y = dynamic_update_slice x, s, u, like x, like u return y }",
        "(x: f64[4, 3], s: i64[2], u: f64[2, 0]) { y = dynamic_update_slice x, s, u, like x, like u return y }",
    ],
};

/// The updates among zeros, where ones at the same place are not 0.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let [x, starts, updates, ..] = eqn.args[..] else {
        return None;
    };
    let (whole, part) = (b.aval(x).shape.known()?, b.aval(updates).shape.known()?);
    let like = [&whole, &part].map(|lens| zeros(b, lens, DType::I32));
    let lens: Vec<i64> = part.iter().map(|len| *len as i64).collect();
    let ones = [b.attr(lens), b.attr(1), b.attr(DType::I32)];
    let ones = b.emit(Op::Full, &ones, &[]);
    let place = |b: &mut Builder, y: Var, like: [Var; 2]| {
        b.emit(Op::DynamicSliceT, &[], &[y, starts, like[0], like[1]])
    };
    let hit = place(b, ones, like);
    let zero = b.scalar(0.0, hit);
    let hit = b.binary(Op::Ne, hit, zero);
    let placed = match b.aval(x).dtype? {
        // Bools among zeros, as integers.
        DType::Bool => {
            let dtype = b.attr(DType::I32);
            let updates = b.emit(Op::Cast, &[dtype], &[updates, updates]);
            let placed = place(b, updates, like);
            b.binary(Op::Ne, placed, zero)
        }
        _ => place(b, updates, [x, updates]),
    };
    Some(vec![b.select(hit, placed, x)])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut y = of.x().clone();
    let updates = &of.args[2];
    for i in indices(&updates.shape) {
        let to = in_whole(of.y(), of.out(), &updates.shape, &i);
        y.add(&to, updates.get(&i) - y.get(&to));
    }
    y
}
