use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, shape};
use crate::{Attr, Builder, Op, StaticKind, Var};

methods! { sort {
    /// The numbers of each row along an axis in ascending order. NaN is last.
    ///
    /// The derivative follows the elements; equal ones, as 0 and -0, keep their order.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([3.0f32, 1.0, 2.0]);
    /// assert_eq!(x.sort(0).to_vec::<f32>(), [1.0, 2.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range, or if the op does not accept the dtype.
    fn sort(x: Data, axis: Static, descending: Switch(false));

    /// The numbers of each row along an axis in descending order. NaN is first.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([3.0f32, 1.0, 2.0]);
    /// assert_eq!(x.sort_descending(0).to_vec::<f32>(), [3.0, 2.0, 1.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range, or if the op does not accept the dtype.
    fn sort_descending(x: Data, axis: Static, descending: Switch(true));
} }

/// `sort[axis, descending] x`: the elements of each row along `axis` in order. NaN is the greatest.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "sort",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axis.named("axis"),
        StaticKind::KnownFlag.named("descending"),
    ],
    shape: |statics, args| shape::along(&args[0].shape, &statics[0]),
    dtype: shape::of_operand,
    methods: METHODS,
    // dy[i] = dx[order[i]].
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (dx, x) = (dx[0]?, eqn.args[0]);
        let order = b.emit(Op::Argsort, &eqn.attrs, &[x]);
        Some(elements(b, [dx, order, x], eqn.attrs[0]))
    }),
    kernel: Kernel::Sort,
    count: Count::each(10, 0),
    facts: OpFacts::opaque(axes::ALONG).range(|of| of.x()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = sort[axis=1, descending=false] x return y }",
            "(x: f64[4, 2]) { y = sort[axis=-2, descending=true] x return y }",
            "(x: f64[2, 0]) { y = sort[axis=1, descending=false] x return y }",
            "(x: f64[1]) { y = sort[axis=0, descending=false] x return y }",
            "(x: i64[2, 5]) { y = sort[axis=1, descending=true] x return y }",
            "(x: bool[2, 5]) { y = sort[axis=1, descending=true] x return y }",
        ],
    ),
};

/// Emits the elements of `dx`, of the shape of `x`, at the indices `order` of each row.
pub(super) fn elements(b: &mut Builder, [dx, order, x]: [Var; 3], axis: Attr) -> Var {
    let [along, last] = [b.attr(true), b.attr(false)];
    b.emit(Op::Take, &[axis, along, last], &[dx, order, x])
}

/// Returns the indices of a row in the order of its elements. It is defined without NaN.
pub(super) fn order(row: &[f64], descending: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    // Zeros of both signs are equal.
    let number = |i: usize| row[i] + 0.0;
    order.sort_by(|&i, &j| match descending {
        true => number(j).total_cmp(&number(i)),
        false => number(i).total_cmp(&number(j)),
    });
    order
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let axis = of.axis(0, of.rank());
    of.build(|i| {
        let row = of.x().row(&[axis], &i);
        row[order(&row, of.flag(1))[i[axis]]]
    })
}
