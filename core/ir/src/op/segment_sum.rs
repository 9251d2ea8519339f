use super::nd_array::{Application, NdArray, indices};
use super::{Count, Fails, Kernel, Linear, OpFacts, Operands, axes, lanes, shape};
use crate::{Builder, Eqn, Fault, Op, Shape, Static, StaticKind, Var};

methods! { segment_sum {
    /// The sum of the rows of each segment.
    ///
    /// `ids` has the segment of each row: its axes are the leading axes of the tensor. They are replaced
    /// by an axis of length `segments`. The sum of no rows is 0. A number outside of `0..segments` is an
    /// error when the value is computed, except that negative numbers count from the end. Takes
    /// numbers; integers wrap.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
    /// let sums = x.segment_sum(&Tensor::from([0i64, 2, 0, 2]), 3);
    /// assert_eq!(sums.to_vec::<f32>(), [4.0, 0.0, 6.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axes of `ids` are not the leading axes of the tensor, `ids` are not integers, `segments` is
    /// negative, or the dtype is `bool`.
    fn segment_sum(x: Data, ids: Data, segments: Static);
} }

/// `segment_sum[segments] x, ids`: the sum of the rows of `x` with each number.
pub(super) static OP: Linear = Linear {
    name: "segment_sum",
    operands: Operands::Fixed(2, 0),
    statics: &[StaticKind::Count.named("segments")],
    shape: |statics, args| summed(statics, &args[0].shape, &args[1].shape),
    dtype: |_, args| {
        shape::integer(args[1].dtype, "an integer for the segments")?;
        shape::number(args[0].dtype, true)
    },
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit_on(Op::SegmentSumT, eqn, ct)[0],
    kernel: Kernel::SegmentSum,
    count: Count::Copy,
    facts: OpFacts::composite(axes::opaque(lanes::simpler), decompose)
        .fails(Fails::Labels(Op::SegmentSum)),
    samples: &[
        "(x: f64[5, 2], s: i64[5]) { y = segment_sum[segments=3] x, s return y }",
        "(x: f64[2, 3], s: i32[2, 3]) { y = segment_sum[segments=4] x, s return y }",
        "(x: f64[2], s: i64[]) { y = segment_sum[segments=3] x, s return y }",
        "(x: f64[0, 2], s: i64[0]) { y = segment_sum[segments=2] x, s return y }",
        "(x: i32[5], s: i64[5]) { y = segment_sum[segments=3] x, s return y }",
    ],
};

/// Returns the shape of the sums of rows of `x`, whose leading axes are those of `ids`.
fn summed(statics: &[Static], x: &Shape, ids: &Shape) -> Result<Shape, Fault> {
    let (Some(x), Some(ids)) = (x.dims(), ids.dims()) else {
        return Ok(Shape::UNKNOWN);
    };
    let Some((rows, rest)) = x.split_at_checked(ids.len()) else {
        return Err(Fault::Rank {
            found: x.len(),
            expected: format!("at least {}, that of the segments", ids.len()),
        });
    };
    shape::same(&Shape::from(rows), &Shape::from(ids))?;
    let segments = shape::dim(&statics[0]);
    Ok(Shape::from([&[segments], rest].concat()))
}

/// The transpose of `take` along the first axis.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let segments = [b.static_of(eqn.attrs[0]).clone()];
    let [x, ids] = [eqn.args[0], eqn.args[1]].map(|v| &b.aval(v).shape);
    let lens = summed(&segments, x, ids).ok()?.known()?;
    let lens: Vec<i64> = lens.into_iter().map(|len| len as i64).collect();
    let dtype = b.aval(eqn.args[0]).dtype?;
    let full = [b.attr(lens), b.attr(0), b.attr(dtype)];
    let like = b.emit(Op::Full, &full, &[]);
    let attrs = [b.attr(0), b.attr(false), b.attr(false)];
    Some(vec![b.emit(
        Op::TakeT,
        &attrs,
        &[eqn.args[0], eqn.args[1], like],
    )])
}

/// Returns the row with a number, which counts from the end if it is negative.
pub(super) fn row(number: f64, rows: usize) -> usize {
    let from_start = if number < 0.0 { rows as f64 } else { 0.0 };
    (number + from_start) as usize
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut y = NdArray::zeros(of.out());
    let rank = of.y().shape.len();
    for i in indices(&of.x().shape) {
        let to = [&[row(of.y().get(&i[..rank]), of.out()[0])], &i[rank..]].concat();
        y.add(&to, of.x().get(&i));
    }
    y
}
