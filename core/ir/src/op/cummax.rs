use super::argmax::first_best;
use super::cumsum::{scanned, walk};
use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, shape};
use crate::{Builder, Eqn, Op, StaticKind, Var};

methods! { cummax {
    /// Largest elements up to each one along `axes` of numbers. NaN from the first NaN on.
    ///
    /// Several axes are walked in row-major order. Equal elements share the derivative equally.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([2.0f32, 1.0, 3.0, 0.0]);
    /// assert_eq!(x.cummax(0).to_vec::<f32>(), [2.0, 2.0, 3.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn cummax(x: Data, axes: Static, reverse: Switch(false));
} }

/// `cummax[axes, reverse] x`: the largest element up to each one along `axes`; NaN after a NaN.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "cummax",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::KnownFlag.named("reverse"),
    ],
    shape: scanned,
    dtype: shape::of_operand,
    methods: METHODS,
    rule: NonlinearRule::Tangent(|b, eqn, dx| tangent(b, eqn, dx, Op::Lt)),
    kernel: Kernel::Cummax,
    count: Count::FLOP,
    facts: OpFacts::opaque(axes::ALONG).range(|of| of.x()),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = cummax[axes=[1], reverse=false] x return y }",
            "(x: f64[3, 2]) { y = cummax[axes=[-2], reverse=true] x return y }",
            "(x: f64[2, 3, 2]) { y = cummax[axes=[0, 2], reverse=false] x return y }",
            "(x: f64[2, 0]) { y = cummax[axes=[1], reverse=false] x return y }",
            "(x: f64[]) { y = cummax[axes=all, reverse=false] x return y }",
            "(x: i64[2, 3]) { y = cummax[axes=[1], reverse=true] x return y }",
            "(x: bool[2, 3]) { y = cummax[axes=[1], reverse=true] x return y }",
        ],
    ),
};

/// Emits the tangent: the mean of `dx` over the elements so far that are equal to `y[i]`.
///
/// `short` is the comparison that is true for elements other than `y`: `Lt` for a maximum. If `y`
/// is NaN, no element is equal to it and none compares to it, so the tangent is NaN.
pub(super) fn tangent(b: &mut Builder, eqn: &Eqn, dx: &[Option<Var>], short: Op) -> Option<Var> {
    let (dx, x, y) = (dx[0]?, eqn.args[0], eqn.out());
    let [zero, one] = [0.0, 1.0].map(|n| b.scalar(n, x));
    // A factor of 1 continues a total, and 0 starts another one. The first factor is not used.
    let before = b.emit(Op::Shift, &eqn.attrs, &[y]);
    let continues = b.binary(Op::Eq, y, before);
    let factors = b.select(continues, one, zero);
    let hit = b.binary(Op::Eq, x, y);
    let short = b.binary(short, x, y);
    let hits = b.select(hit, one, y);
    let hits = b.select(short, zero, hits);
    let zeros = b.zeros_like(x);
    let dx = b.select(short, zeros, dx);
    let no = b.attr(false);
    let attrs = [eqn.attrs[0], eqn.attrs[1], no];
    let [n_hits, total] = [hits, dx].map(|x| b.emit(Op::Recurrence, &attrs, &[x, factors]));
    Some(b.div(total, n_hits))
}

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    walk(of, |rows| rows[0][first_best(&rows[0], |x, y| x > y)])
}
