use super::class::bilinear;
use super::lanes::Factor;
use super::nd_array::{Application, NdArray};
use super::{AxesRule, Bilinear, Count, Kernel, OpFacts, axes, lanes, shape, windows};
use crate::Op;

/// `conv_weight_t[strides, padding, dilation, groups] x, c, like x, like w`: the shape of `w`.
///
/// This is the transpose of `conv` in its second operand. `c` has the shape of `conv x, w`.
pub(super) static OP: Bilinear = Bilinear {
    name: "conv_weight_t",
    statics: &windows::CONV,
    shape: |statics, args| {
        let x = shape::same(&args[2].shape, &args[0].shape)?;
        let z = windows::convolved(statics, &x, &args[3].shape)?;
        shape::same(&z, &args[1].shape)?;
        Ok(args[3].shape.clone())
    },
    methods: &[],
    transpose: [
        |b, eqn, ct| bilinear(b, Op::ConvInputT, [eqn.args[1], ct], eqn),
        |b, eqn, ct| bilinear(b, Op::Conv, [eqn.args[0], ct], eqn),
    ],
    kernel: Kernel::ConvWeightT,
    count: Count::Convolution {
        windows: 1,
        weights: 2,
    },
    facts: OpFacts::opaque(AxesRule {
        signature: |of| axes::convolution(of, [Factor::X, Factor::Z], Factor::Y),
        batch: |b, of| lanes::convolution(b, of, [Factor::X, Factor::Z], Factor::Y),
    }),
    samples: &[
        "(x: f64[2, 2, 5], c: f64[2, 3, 4], w: f64[3, 2, 2]) { z = conv_weight_t[strides=1, padding=0, dilation=1, groups=1] x, c, like x, like w return z }",
        "(x: f64[1, 4, 6], c: f64[1, 2, 3], w: f64[2, 2, 3]) { z = conv_weight_t[strides=[2], padding=[2, 1], dilation=[2], groups=2] x, c, like x, like w return z }",
        "(x: f64[2, 1, 4, 3], c: f64[2, 5, 2, 3], w: f64[5, 1, 2, 2]) { z = conv_weight_t[strides=[2, 1], padding=all, dilation=[1, 2], groups=1] x, c, like x, like w return z }",
        "(x: f64[1, 2, 3, 4], c: f64[1, 2, 3, 4], w: f64[2, 1, 2, 2]) { z = conv_weight_t[strides=1, padding=[1, 0, 0, 1], dilation=1, groups=2] x, c, like x, like w return z }",
        "(x: f64[2, 3, 2, 2], c: f64[2, 4, 2, 2], w: f64[4, 3, 1, 1]) { z = conv_weight_t[strides=1, padding=0, dilation=1, groups=1] x, c, like x, like w return z }",
        "(x: f64[0, 2, 3], c: f64[0, 2, 2], w: f64[2, 2, 2]) { z = conv_weight_t[strides=1, padding=0, dilation=1, groups=1] x, c, like x, like w return z }",
        "(x: i64[2, 2, 4], c: i64[2, 4, 5], w: i64[4, 2, 2]) { z = conv_weight_t[strides=1, padding=1, dilation=1, groups=1] x, c, like x, like w return z }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.sum_of_products(
        windows::terms(of, [&of.likes[0], of.out(), &of.y().shape]),
        [0, 2, 1],
    )
}
