use super::nd_array::{Application, NdArray};
use super::sort::{elements, order};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, shape};
use crate::{Aval, Dim, Fault, Op, Shape, Static, StaticKind};

methods! { top_k {
    /// The `count` largest numbers of each row along an axis, in descending order. NaN is first.
    ///
    /// The derivative follows the elements; of equal ones, the first are taken.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([3.0f32, 1.0, 2.0]);
    /// assert_eq!(x.top_k(2, 0).to_vec::<f32>(), [3.0, 2.0]);
    /// assert_eq!(x.top_k_indices(2, 0).to_vec::<i64>(), [0, 2]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range or has fewer elements, or if the op does not accept the dtype.
    fn top_k(x: Data, count: Static, axis: Static);
} }

/// `top_k[count, axis] x`: the `count` largest elements along `axis`, in descending order.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "top_k",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Count.named("count"),
        StaticKind::Axis.named("axis"),
    ],
    shape: first_of_axis,
    dtype: shape::of_operand,
    methods: METHODS,
    // dy[i] = dx[order[i]].
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (dx, x) = (dx[0]?, eqn.args[0]);
        let order = b.emit(Op::TopKIndices, &eqn.attrs, &[x]);
        Some(elements(b, [dx, order, x], eqn.attrs[1]))
    }),
    kernel: Kernel::TopK,
    count: Count::each(10, 0),
    facts: OpFacts::opaque(axes::ALONG).range(|of| of.x()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = top_k[count=2, axis=1] x return y }",
            "(x: f64[4, 2]) { y = top_k[count=3, axis=-2] x return y }",
            "(x: f64[2, 0]) { y = top_k[count=0, axis=1] x return y }",
            "(x: f64[3]) { y = top_k[count=3, axis=0] x return y }",
            "(x: i64[2, 5]) { y = top_k[count=1, axis=1] x return y }",
            "(x: bool[2, 5]) { y = top_k[count=1, axis=1] x return y }",
        ],
    ),
};

/// Returns the shape of the operand with `count` elements along the axis.
pub(super) fn first_of_axis(statics: &[Static], args: &[&Aval]) -> Result<Shape, Fault> {
    let x = shape::along(&args[0].shape, &statics[1])?;
    let Some(dims) = x.dims() else {
        return Ok(x);
    };
    let Some(axis) = shape::known_axis(&statics[1], dims.len())? else {
        return Ok(Shape::from(vec![Dim::Unknown; dims.len()]));
    };
    let count = shape::dim(&statics[0]);
    if let (Some(count), Some(len)) = (count.known(), dims[axis].known())
        && count > len
    {
        return Err(Fault::Length {
            what: format!("the length of axis {axis}"),
            found: len.to_string(),
            expected: format!("at least {count}"),
        });
    }
    let mut dims = dims.to_vec();
    dims[axis] = count;
    Ok(Shape::from(dims))
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let axis = of.axis(1, of.rank());
    of.build(|i| {
        let row = of.x().row(&[axis], &i);
        row[order(&row, true)[i[axis]]]
    })
}
