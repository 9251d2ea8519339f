use super::nd_array::{Application, NdArray};
use super::scatter::{to_along, updated, updated_dtype};
use super::take::places;
use super::{
    Count, Fails, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, lanes, shape,
};
use crate::{Builder, Eqn, Op, StaticKind, Var};

methods! { scatter_extreme {
    /// The tensor with each slice at the given indices replaced by its maximum with the updates.
    ///
    /// NaN counts as the largest. The elements that share the maximum share its derivative. Otherwise
    /// as [`Tensor::scatter_add`].
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
    /// let y = x.scatter_max(&Tensor::from([0i64, 0, 2]), &Tensor::from([5.0f32, 4.0, 1.0]), 0);
    /// assert_eq!(y.to_vec::<f32>(), [5.0, 2.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As [`Tensor::scatter_add`].
    fn scatter_max(x: Data + Like, indices: Data, updates: Data + Like, axis: Static, along: Switch(false), max: Switch(true));
    /// The tensor with each slice at the given indices replaced by its minimum with the updates.
    ///
    /// As [`Tensor::scatter_max`].
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
    /// let y = x.scatter_min(&Tensor::from([0i64, 0, 2]), &Tensor::from([5.0f32, 0.0, 1.0]), 0);
    /// assert_eq!(y.to_vec::<f32>(), [0.0, 2.0, 1.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As [`Tensor::scatter_add`].
    fn scatter_min(x: Data + Like, indices: Data, updates: Data + Like, axis: Static, along: Switch(false), max: Switch(false));
} }

/// `scatter_extreme[axis, along, max] x, i, u, like x, like u`: the maximum or minimum of `x` and the
/// updates `u` at the indices `i`.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "scatter_extreme",
    operands: Operands::Fixed(3, 2),
    statics: &[
        StaticKind::Axis.named("axis"),
        StaticKind::KnownFlag.named("along"),
        StaticKind::KnownFlag.named("max"),
    ],
    shape: |statics, args| {
        shape::same(&args[2].shape, &args[4].shape)?;
        updated(statics, args[3], args)
    },
    dtype: |_, args| shape::number(updated_dtype(args)?, true),
    methods: METHODS,
    rule: NonlinearRule::Tangent(tangent),
    kernel: Kernel::ScatterExtreme,
    count: Count::FLOP,
    facts: OpFacts::opaque(axes::opaque(|b, of| lanes::indexed(b, of, false, to_along)))
        .fails(Fails::Labels(Op::ScatterExtreme)),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[3, 2], i: i64[4], u: f64[4, 2]) { y = scatter_extreme[axis=0, along=false, max=true] x, i, u, like x, like u return y }",
            "(x: f64[2, 3], i: i32[2, 2], u: f64[2, 2, 2]) { y = scatter_extreme[axis=1, along=false, max=false] x, i, u, like x, like u return y }",
            "(x: f64[2, 3], i: i64[2, 5], u: f64[2, 5]) { y = scatter_extreme[axis=-1, along=true, max=true] x, i, u, like x, like u return y }",
            "(x: f64[3], i: i64[], u: f64[]) { y = scatter_extreme[axis=0, along=false, max=false] x, i, u, like x, like u return y }",
            "(x: f64[3, 0], i: i64[2], u: f64[2, 0]) { y = scatter_extreme[axis=0, along=false, max=true] x, i, u, like x, like u return y }",
            "(x: i64[3], i: i32[2], u: i64[2]) { y = scatter_extreme[axis=0, along=false, max=true] x, i, u, like x, like u return y }",
        ],
    ),
};

/// The mean of the tangents of all elements that are equal to the result.
fn tangent(b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>]) -> Option<Var> {
    let [x, i, u] = [eqn.args[0], eqn.args[1], eqn.args[2]];
    let y = eqn.out();
    let last = b.attr(false);
    let attrs = [eqn.attrs[0], eqn.attrs[1], last];
    let at_index = b.emit(Op::Take, &attrs, &[y, i, x]);
    let in_x = b.binary(Op::Eq, x, y);
    let in_u = b.binary(Op::Eq, u, at_index);
    // The number of equal elements.
    let (one_x, one_u) = (b.scalar(1.0, x), b.scalar(1.0, u));
    let (zero_x, zero_u) = (b.scalar(0.0, x), b.scalar(0.0, u));
    let count_x = b.select(in_x, one_x, zero_x);
    let count_u = b.select(in_u, one_u, zero_u);
    let count_u = b.emit(Op::TakeT, &attrs, &[count_u, i, x]);
    let count = b.add(count_x, count_u);
    let from_x = dx[0].map(|dx| b.select(in_x, dx, zero_x));
    let from_u = dx[2].map(|du| {
        let du = b.select(in_u, du, zero_u);
        b.emit(Op::TakeT, &attrs, &[du, i, x])
    });
    let sum = b.add_tangents(from_x, from_u)?;
    Some(b.div(sum, count))
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let mut y = of.x().clone();
    for place in places(of, of.out(), &of.args[2].shape) {
        let (old, new) = (y.get(&place.whole), of.args[2].get(&place.part));
        let is_more = if of.flag(2) { new > old } else { new < old };
        if is_more || new.is_nan() {
            y.add(&place.whole, new - old);
        }
    }
    y
}
