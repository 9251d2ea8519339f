use super::nd_array::{Application, NdArray};
use super::pad::{padded, source};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Op, StaticKind};

/// `pad_zeros[low, high, interior] x, like x`: `pad` with zeros, which is linear.
pub(super) static OP: Linear = Linear {
    name: "pad_zeros",
    operands: Operands::Fixed(1, 1),
    statics: &[
        StaticKind::Margins.named("low"),
        StaticKind::Margins.named("high"),
        StaticKind::Margins.named("interior"),
    ],
    shape: |statics, args| padded(&shape::same(&args[0].shape, &args[1].shape)?, statics),
    dtype: shape::of_operand,
    methods: &[],
    transpose: |b, eqn, ct| b.emit(Op::PadZerosT, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::PadZeros,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::PADDED).moves(),
    samples: &[
        "(x: f64[2, 3]) { y = pad_zeros[low=[1, 0], high=[0, 2], interior=[0, 1]] x, like x return y }",
        "(x: f64[4, 2]) { y = pad_zeros[low=[-1, -3], high=[1, 4], interior=[1, 2]] x, like x return y }",
        "(x: f64[3]) { y = pad_zeros[low=-1, high=-2, interior=0] x, like x return y }",
        "(x: f64[0, 2]) { y = pad_zeros[low=1, high=1, interior=1] x, like x return y }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.build(|i| source(of, &i).map_or(0.0, |i| of.x().get(&i)))
}
