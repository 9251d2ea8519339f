use super::nd_array::{Application, NdArray};
use super::segment_sum::row;
use super::{Count, Dim, Fails, Kernel, Linear, OpFacts, Operands, axes, lanes, shape};
use crate::{Builder, Eqn, Fault, Op, Shape, StaticKind, Var};

/// `segment_sum_t[segments] y, ids`: for each number, the row of `y` of its segment.
///
/// This is the transpose of `segment_sum`.
pub(super) static OP: Linear = Linear {
    name: "segment_sum_t",
    operands: Operands::Fixed(2, 0),
    statics: &[StaticKind::Count.named("segments")],
    shape: |statics, args| {
        let Some(y) = args[0].shape.dims() else {
            return Ok(Shape::UNKNOWN);
        };
        let Some((rows, rest)) = y.split_first() else {
            return Err(Fault::Rank {
                found: 0,
                expected: "at least 1".to_owned(),
            });
        };
        let segments = shape::dim(&statics[0]);
        if rows.differs(segments) {
            return Err(Fault::Length {
                what: "axis 0".to_owned(),
                found: rows.to_string(),
                expected: format!("{segments}, the number of segments"),
            });
        }
        // The cotangents of the result sum up to this shape.
        shape::check_size(&Shape::from([&[segments], rest].concat()))?;
        let ids = args[1].shape.dims();
        Ok(Shape(ids.map(|ids: &[Dim]| [ids, rest].concat().into())))
    },
    dtype: |_, args| {
        shape::integer(args[1].dtype, "an integer for the segments")?;
        shape::number(args[0].dtype, true)
    },
    methods: &[],
    transpose: |b, eqn, ct| b.emit_on(Op::SegmentSum, eqn, ct)[0],
    kernel: Kernel::SegmentSumT,
    count: Count::Copy,
    facts: OpFacts::composite(axes::opaque(lanes::simpler), decompose)
        .fails(Fails::Labels(Op::SegmentSum)),
    samples: &[
        "(y: f64[3, 2], s: i64[5]) { x = segment_sum_t[segments=3] y, s return x }",
        "(y: f64[4], s: i32[2, 3]) { x = segment_sum_t[segments=4] y, s return x }",
        "(y: f64[3, 2], s: i64[]) { x = segment_sum_t[segments=3] y, s return x }",
        "(y: f64[2, 2], s: i64[0]) { x = segment_sum_t[segments=2] y, s return x }",
    ],
};

/// `take` along the first axis.
fn decompose(b: &mut Builder, eqn: &Eqn) -> Option<Vec<Var>> {
    let attrs = [b.attr(0), b.attr(false), b.attr(false)];
    let [y, ids] = [eqn.args[0], eqn.args[1]];
    Some(vec![b.emit(Op::Take, &attrs, &[y, ids, y])])
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let rank = of.y().shape.len();
    of.build(|i| {
        let row = row(of.y().get(&i[..rank]), of.x().shape[0]);
        of.x().get(&[&[row], &i[rank..]].concat())
    })
}
