use super::nd_array::{Application, NdArray};
use super::{Count, Equal, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Dim, Fault, Op, Shape, Static, StaticArg, StaticKind};

methods! { select_index {
    /// The slice at one index of an axis, without that axis. It is not copied.
    ///
    /// A negative index counts from the end. For an index that is computed, use [`Tensor::take`].
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.select_index(1, -1).to_vec::<f32>(), [2.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis or the index is out of range.
    fn select_index(x: Data + Like, axis: Static, index: Static);
    /// The slice at one index of the first axis: [`Tensor::select_index`] of axis 0.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.row(1).to_vec::<f32>(), [3.0, 4.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the rank is 0, or the index is out of range.
    fn row(x: Data + Like, axis: Number(0), index: Static);
} }

/// The static arguments of ops on one index of an axis.
pub(super) const STATICS: &[StaticArg] = &[
    StaticKind::Axis.named("axis"),
    StaticKind::Index.named("index"),
];

/// `select_index[axis, index] x, like x`: the slice of `x` at an index of an axis, which is dropped.
pub(super) static OP: Linear = Linear {
    name: "select_index",
    operands: Operands::Fixed(1, 1),
    statics: STATICS,
    shape: |statics, args| selected(statics, &shape::same(&args[0].shape, &args[1].shape)?),
    dtype: shape::of_operand,
    methods: METHODS,
    transpose: |b, eqn, ct| b.emit(Op::SelectIndexT, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::SelectIndex,
    count: Count::View,
    facts: OpFacts {
        equal: Equal::Stacked,
        ..OpFacts::view(axes::REDUCED)
    },
    samples: &[
        "(x: f64[3, 4]) { y = select_index[axis=0, index=1] x, like x return y }",
        "(x: f64[3, 4, 2]) { y = select_index[axis=-2, index=-1] x, like x return y }",
        "(x: f64[3]) { y = select_index[axis=0, index=0] x, like x return y }",
        "(x: f64[0, 2]) { y = select_index[axis=1, index=1] x, like x return y }",
    ],
};

/// Returns the shape of the slice of `x` at an index.
pub(super) fn selected(statics: &[Static], x: &Shape) -> Result<Shape, Fault> {
    let Some(dims) = x.dims() else {
        return Ok(Shape::UNKNOWN);
    };
    let Some(axis) = shape::known_axis(&statics[0], dims.len())? else {
        let rank = dims.len().saturating_sub(1);
        return Ok(Shape::from(vec![Dim::Unknown; rank]));
    };
    let mut rest = dims.to_vec();
    let len = rest.remove(axis);
    if let (Some(index), Some(n)) = (statics[1].int(), len.known())
        && !(-(n as i64)..n as i64).contains(&index)
    {
        return Err(Fault::Index {
            axis,
            index,
            len: n,
        });
    }
    Ok(Shape::from(rest))
}

/// Returns the index in `whole`, a shape, of an element of the slice at an index.
pub(super) fn in_whole(of: &Application<'_>, whole: &[usize], mut i: Vec<usize>) -> Vec<usize> {
    let (axis, index) = (of.axis(0, whole.len()), of.int(1));
    let len = whole[axis] as i64;
    i.insert(axis, index.rem_euclid(len) as usize);
    i
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| of.x().get(&in_whole(of, &of.x().shape, i)))
}
