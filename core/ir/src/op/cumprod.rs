use super::cumsum::{scanned, walk};
use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, axes, shape};
use crate::{Op, StaticKind};

methods! { cumprod {
    /// Products of the elements up to each one along `axes`, in the same dtype; of integers of 8 bits and `bool`, as
    /// `i64`. Integers wrap.
    ///
    /// Several axes are walked in row-major order. Derivatives are correct for zeros, too.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.cumprod(0).to_vec::<f32>(), [1.0, 2.0, 3.0, 8.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn cumprod(x: Data, axes: Static, reverse: Switch(false), exclusive: Switch(false));

    /// [`Tensor::cumprod`] from the last element back to each one.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
    /// assert_eq!(x.cumprod_reverse(0).to_vec::<f32>(), [6.0, 6.0, 3.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If an axis is out of range or given twice, or if the op does not accept the
    /// dtype.
    fn cumprod_reverse(x: Data, axes: Static, reverse: Switch(true), exclusive: Switch(false));
} }

/// `cumprod[axes, reverse, exclusive] x`: the product of the elements up to each one along `axes`.
///
/// An exclusive product leaves out the element itself. Integers wrap.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "cumprod",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Axes.named("axes"),
        StaticKind::KnownFlag.named("reverse"),
        StaticKind::KnownFlag.named("exclusive"),
    ],
    shape: scanned,
    dtype: |_, args| shape::added(args[0].dtype),
    methods: METHODS,
    // With the exclusive product e: dy[i] = dx[i] e[i] + x[i] dy[i - 1], without a division, and
    // de[i] = dx[i - 1] e[i - 1] + x[i - 1] de[i - 1].
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (dx, x) = (dx[0]?, eqn.args[0]);
        let [axes, reverse, exclusive] = [eqn.attrs[0], eqn.attrs[1], eqn.attrs[2]];
        let is_exclusive = b.static_of(exclusive).bool() == Some(true);
        let yes = b.attr(true);
        let before = match is_exclusive {
            true => eqn.out(),
            false => b.emit(Op::Cumprod, &[axes, reverse, yes], &[x]),
        };
        let product = b.mul(dx, before);
        let change = match is_exclusive {
            true => b.emit(Op::Shift, &[axes, reverse], &[product]),
            false => product,
        };
        Some(b.emit(Op::Recurrence, &[axes, reverse, exclusive], &[change, x]))
    }),
    kernel: Kernel::Cumprod,
    count: Count::FLOP,
    facts: OpFacts::opaque(axes::ALONG),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(x: f64[2, 3]) { y = cumprod[axes=[1], reverse=false, exclusive=false] x return y }",
            "(x: f64[3, 2]) { y = cumprod[axes=[-2], reverse=true, exclusive=true] x return y }",
            "(x: f64[2, 2, 2]) { y = cumprod[axes=[0, 2], reverse=false, exclusive=true] x return y }",
            "(x: f64[2, 2]) { y = cumprod[axes=all, reverse=true, exclusive=false] x return y }",
            "(x: f64[2, 0]) { y = cumprod[axes=[1], reverse=false, exclusive=true] x return y }",
            "(x: f64[]) { y = cumprod[axes=all, reverse=false, exclusive=true] x return y }",
            "(x: i64[2, 3]) { y = cumprod[axes=[1], reverse=false, exclusive=false] x return y }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    walk(of, |rows| {
        let n = rows[0].len() - usize::from(of.flag(2));
        rows[0][..n].iter().product()
    })
}
