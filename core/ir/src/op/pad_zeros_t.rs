use super::nd_array::{Application, NdArray};
use super::pad::{numbers, padded};
use super::{Count, Kernel, Linear, OpFacts, Operands, axes, shape};
use crate::{Op, StaticKind};

/// `pad_zeros_t[low, high, interior] y, like x`: the elements of `x` from `y`, which is padded.
///
/// This is the transpose of `pad_zeros`. Elements that the padding removes are zero.
pub(super) static OP: Linear = Linear {
    name: "pad_zeros_t",
    operands: Operands::Fixed(1, 1),
    statics: &[
        StaticKind::Margins.named("low"),
        StaticKind::Margins.named("high"),
        StaticKind::Margins.named("interior"),
    ],
    shape: |statics, args| {
        let y = padded(&args[1].shape, statics)?;
        shape::same(&y, &args[0].shape)?;
        Ok(args[1].shape.clone())
    },
    dtype: shape::of_operand,
    methods: &[],
    transpose: |b, eqn, ct| b.emit(Op::PadZeros, &eqn.attrs, &[ct, eqn.args[1]]),
    kernel: Kernel::PadZerosT,
    count: Count::Copy,
    facts: OpFacts::opaque(axes::PADDED).moves(),
    samples: &[
        "(y: f64[3, 7], x: f64[2, 3]) { z = pad_zeros_t[low=[1, 0], high=[0, 2], interior=[0, 1]] y, like x return z }",
        "(y: f64[7, 5], x: f64[4, 2]) { z = pad_zeros_t[low=[-1, -3], high=[1, 4], interior=[1, 2]] y, like x return z }",
        "(y: f64[0], x: f64[3]) { z = pad_zeros_t[low=-1, high=-2, interior=0] y, like x return z }",
        "(y: f64[3], x: f64[2]) { z = pad_zeros_t[low=1, high=0, interior=0] y, like x return z }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    let (low, interior) = (numbers(of, 0), numbers(of, 2));
    let place = |(axis, i): (usize, &usize)| {
        let place = low[axis] + *i as i64 * (interior[axis] + 1);
        let place = usize::try_from(place).ok();
        place.filter(|place| *place < of.x().shape[axis])
    };
    of.build(|i| {
        let place: Option<Vec<usize>> = i.iter().enumerate().map(place).collect();
        place.map_or(0.0, |place| of.x().get(&place))
    })
}
