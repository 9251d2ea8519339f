use super::class::bilinear;
use super::lanes::Factor;
use super::nd_array::{Application, NdArray};
use super::{AxesRule, Bilinear, Count, Kernel, OpFacts, axes, lanes, shape, windows};
use crate::Op;

pub(super) const AXES: AxesRule = AxesRule {
    signature: |of| axes::convolution(of, [Factor::Z, Factor::Y], Factor::X),
    batch: |b, of| lanes::convolution(b, of, [Factor::Z, Factor::Y], Factor::X),
};

/// `conv_input_t[strides, padding, dilation, groups] c, w, like x, like w`: the shape of `x`.
///
/// This is the transpose of `conv` in its first operand. `c` has the shape of `conv x, w`.
pub(super) static OP: Bilinear = Bilinear {
    name: "conv_input_t",
    statics: &windows::CONV,
    shape: |statics, args| {
        let w = shape::same(&args[3].shape, &args[1].shape)?;
        let z = windows::convolved(statics, &args[2].shape, &w)?;
        shape::same(&z, &args[0].shape)?;
        Ok(args[2].shape.clone())
    },
    methods: &[],
    transpose: [
        |b, eqn, ct| bilinear(b, Op::Conv, [ct, eqn.args[1]], eqn),
        |b, eqn, ct| bilinear(b, Op::ConvWeightT, [ct, eqn.args[0]], eqn),
    ],
    kernel: Kernel::ConvInputT,
    count: Count::Convolution {
        windows: 0,
        weights: 1,
    },
    facts: OpFacts::opaque(AXES),
    samples: &[
        "(c: f64[2, 3, 4], w: f64[3, 2, 2], x: f64[2, 2, 5]) { z = conv_input_t[strides=1, padding=0, dilation=1, groups=1] c, w, like x, like w return z }",
        "(c: f64[1, 2, 3], w: f64[2, 2, 3], x: f64[1, 4, 6]) { z = conv_input_t[strides=[2], padding=[2, 1], dilation=[2], groups=2] c, w, like x, like w return z }",
        "(c: f64[2, 5, 2, 3], w: f64[5, 1, 2, 2], x: f64[2, 1, 4, 3]) { z = conv_input_t[strides=[2, 1], padding=all, dilation=[1, 2], groups=1] c, w, like x, like w return z }",
        "(c: f64[1, 2, 3, 4], w: f64[2, 1, 2, 2], x: f64[1, 2, 3, 4]) { z = conv_input_t[strides=1, padding=[1, 0, 0, 1], dilation=1, groups=2] c, w, like x, like w return z }",
        "(c: f64[2, 4, 2, 2], w: f64[4, 3, 1, 1], x: f64[2, 3, 2, 2]) { z = conv_input_t[strides=1, padding=0, dilation=1, groups=1] c, w, like x, like w return z }",
        "(c: f64[2, 0, 2], w: f64[0, 2, 2], x: f64[2, 2, 3]) { z = conv_input_t[strides=1, padding=0, dilation=1, groups=1] c, w, like x, like w return z }",
        "(c: f64[0, 2, 2], w: f64[2, 2, 2], x: f64[0, 2, 3]) { z = conv_input_t[strides=1, padding=0, dilation=1, groups=1] c, w, like x, like w return z }",
        "(c: i64[2, 4, 5], w: i64[4, 2, 2], x: i64[2, 2, 4]) { z = conv_input_t[strides=1, padding=1, dilation=1, groups=1] c, w, like x, like w return z }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.sum_of_products(
        windows::terms(of, [of.out(), &of.likes[1], &of.x().shape]),
        [2, 1, 0],
    )
}
