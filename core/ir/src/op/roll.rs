use super::cumsum::negated;
use super::nd_array::{Application, NdArray};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Op, StaticKind};

methods! { roll {
    /// The elements moved by `shift` places along an axis; those past the end come first.
    ///
    /// A negative shift moves them towards the start. Takes every dtype.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
    /// assert_eq!(x.roll(1, 0).to_vec::<f32>(), [3.0, 1.0, 2.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the axis is out of range.
    fn roll(x: Data, shift: Static, axis: Static, back: Switch(false));
} }

/// `roll[shift, axis, back] x`: the elements moved by `shift` places along `axis`, or back by them.
pub(super) static OP: Linear = Linear {
    name: "roll",
    operands: Operands::Fixed(1, 0),
    statics: &[
        StaticKind::Offset.named("shift"),
        StaticKind::Axis.named("axis"),
        StaticKind::KnownFlag.named("back"),
    ],
    shape: |statics, args| shape::along(&args[0].shape, &statics[1]),
    dtype: shape::of_operand,
    methods: METHODS,
    transpose: |b, eqn, ct| {
        let back = negated(b, eqn.attrs[2]);
        b.emit(Op::Roll, &[eqn.attrs[0], eqn.attrs[1], back], &[ct])
    },
    kernel: Kernel::Roll,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::ALONG).moves().range(|of| of.x()),
    samples: &[
        "(x: f64[2, 3]) { y = roll[shift=1, axis=1, back=false] x return y }",
        "(x: f64[5, 3]) { y = roll[shift=-7, axis=-2, back=false] x return y }",
        "(x: f64[3]) { y = roll[shift=2, axis=0, back=true] x return y }",
        "(x: f64[0, 3]) { y = roll[shift=2, axis=0, back=false] x return y }",
        "(x: bool[3]) { y = roll[shift=3, axis=0, back=false] x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let axis = of.axis(1, of.rank());
    let shift = if of.flag(2) { -of.int(0) } else { of.int(0) };
    of.build(|mut i| {
        i[axis] = (i[axis] as i64 - shift).rem_euclid(of.out()[axis] as i64) as usize;
        of.x().get(&i)
    })
}
