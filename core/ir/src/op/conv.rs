use super::class::bilinear;
use super::lanes::Factor;
use super::nd_array::{Application, NdArray};
use super::{AxesRule, Bilinear, Count, Kernel, OpFacts, axes, lanes, shape, windows};
use crate::Op;

methods! { conv {
    /// Convolution of `[n, c, lens..]` with weights `[o, c / groups, window..]` to `[n, o, ..]`.
    ///
    /// There are 1 to 3 axes after the channels. The weights are not reversed, as in JAX and
    /// PyTorch: `z[n, o, i] = sum of x[n, c, i * stride + k * dilation - padding] w[o, c, k]`.
    ///
    /// - `strides` and `dilation` are one number for all of these axes, or one for each.
    /// - `padding` is one number, one for each axis, or one for each end, as in `[1, 0, 0, 1]` for
    ///   two axes. A negative one drops elements. `..` pads so that the result has length `len /
    ///   stride`, rounded up.
    /// - `groups` splits the channels of the input and of the result into as many parts, which do
    ///   not see each other.
    ///
    /// All have the same dtype, a number. [`Tensor::conv_transpose`] has the transposed rule.
    ///
    /// ```
    /// # use gradloom::{DType, Tensor};
    /// let x = Tensor::from([[[1.0f32, 2.0, 3.0, 4.0]]]);
    /// let w = Tensor::from([[[1.0f32, 10.0]]]);
    /// assert_eq!(x.conv(&w, 1, 0, 1, 1).to_vec::<f32>(), [21.0, 32.0, 43.0]);
    /// assert_eq!(x.conv(&w, 2, 0, 1, 1).to_vec::<f32>(), [21.0, 43.0]);
    ///
    /// let image = Tensor::ones([8, 3, 32, 32], DType::F32);
    /// let w = Tensor::ones([16, 3, 3, 3], DType::F32);
    /// assert_eq!(image.conv(&w, [2, 1], .., 1, 1).shape(), [8, 16, 16, 32]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the shapes or dtypes do not match, a window is longer than its axis with the padding,
    /// `groups` does not divide the channels, or a stride or dilation is less than 1.
    fn conv(x: Data + Like, weights: Data + Like, strides: Static, padding: Static, dilation: Static, groups: Static);

    /// [`Tensor::conv`] that pads with zeros to a result of length `len / stride`, rounded up.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[[1.0f32, 2.0, 3.0]]]);
    /// let w = Tensor::from([[[1.0f32, 1.0, 1.0]]]);
    /// assert_eq!(x.conv_same(&w, 1).to_vec::<f32>(), [3.0, 6.0, 5.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As for [`Tensor::conv`].
    fn conv_same(x: Data + Like, weights: Data + Like, strides: Static, padding: All, dilation: Number(1), groups: Number(1));

    /// [`Tensor::conv`] without padding.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[[1.0f32, 2.0, 3.0]]]);
    /// let w = Tensor::from([[[1.0f32, 1.0, 1.0]]]);
    /// assert_eq!(x.conv_valid(&w, 1).to_vec::<f32>(), [6.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// As for [`Tensor::conv`].
    fn conv_valid(x: Data + Like, weights: Data + Like, strides: Static, padding: Number(0), dilation: Number(1), groups: Number(1));
} }

/// `conv[strides, padding, dilation, groups] x, w, like x, like w`: a convolution.
///
/// `conv`, `input_t` and `weight_t` are closed under transposition. For `z = conv(x, w)` with a
/// cotangent `c` of `z`,
///
/// ```text
/// conv(x, w)      x <- input_t(ct, w)    w <- weight_t(x, ct)
/// input_t(c, w)   c <- conv(ct, w)       w <- weight_t(ct, c)
/// weight_t(x, c)  x <- input_t(c, ct)    c <- conv(x, ct)
/// ```
///
/// The `Like` operands of all three are the primal `x` and `w`.
pub(super) static OP: Bilinear = Bilinear {
    name: "conv",
    statics: &windows::CONV,
    shape: |statics, args| {
        let x = shape::same(&args[2].shape, &args[0].shape)?;
        let w = shape::same(&args[3].shape, &args[1].shape)?;
        windows::convolved(statics, &x, &w)
    },
    methods: METHODS,
    transpose: [
        |b, eqn, ct| bilinear(b, Op::ConvInputT, [ct, eqn.args[1]], eqn),
        |b, eqn, ct| bilinear(b, Op::ConvWeightT, [eqn.args[0], ct], eqn),
    ],
    kernel: Kernel::Conv,
    count: Count::Convolution {
        windows: 2,
        weights: 1,
    },
    facts: OpFacts::opaque(AxesRule {
        signature: |of| axes::convolution(of, [Factor::X, Factor::Y], Factor::Z),
        batch: |b, of| lanes::convolution(b, of, [Factor::X, Factor::Y], Factor::Z),
    }),
    samples: &[
        "(x: f64[2, 2, 5], w: f64[3, 2, 2]) { z = conv[strides=1, padding=0, dilation=1, groups=1] x, w, like x, like w return z }",
        "(x: f64[1, 4, 6], w: f64[2, 2, 3]) { z = conv[strides=[2], padding=[2, 1], dilation=[2], groups=2] x, w, like x, like w return z }",
        "(x: f64[2, 1, 4, 3], w: f64[5, 1, 2, 2]) { z = conv[strides=[2, 1], padding=all, dilation=[1, 2], groups=1] x, w, like x, like w return z }",
        "(x: f64[1, 2, 3, 4], w: f64[2, 1, 2, 2]) { z = conv[strides=1, padding=[1, 0, 0, 1], dilation=1, groups=2] x, w, like x, like w return z }",
        "(x: f64[1, 1, 4, 3], w: f64[1, 1, 2, 1]) { z = conv[strides=[2, 3], padding=[-1, 1], dilation=1, groups=1] x, w, like x, like w return z }",
        "(x: f64[2, 3, 2, 2], w: f64[4, 3, 1, 1]) { z = conv[strides=1, padding=0, dilation=1, groups=1] x, w, like x, like w return z }",
        "(x: f64[1, 2, 2, 3, 2], w: f64[3, 2, 2, 2, 1]) { z = conv[strides=1, padding=[0, 1, 0], dilation=1, groups=1] x, w, like x, like w return z }",
        "(x: f64[0, 2, 3], w: f64[2, 2, 2]) { z = conv[strides=1, padding=0, dilation=1, groups=1] x, w, like x, like w return z }",
        "(x: f64[2, 0, 3], w: f64[2, 0, 2]) { z = conv[strides=1, padding=0, dilation=1, groups=1] x, w, like x, like w return z }",
        "(x: f64[2, 2, 0], w: f64[2, 2, 1]) { z = conv[strides=1, padding=0, dilation=1, groups=1] x, w, like x, like w return z }",
        "(x: f64[2, 2, 0], w: f64[2, 2, 1]) { z = conv[strides=1, padding=1, dilation=1, groups=1] x, w, like x, like w return z }",
        "(x: f64[1, 1, 3], w: f64[0, 1, 2]) { z = conv[strides=1, padding=0, dilation=1, groups=1] x, w, like x, like w return z }",
        "(x: i64[2, 2, 4], w: i64[4, 2, 2]) { z = conv[strides=1, padding=1, dilation=1, groups=1] x, w, like x, like w return z }",
        "(x: i32[1, 2, 4], w: i32[2, 1, 2]) { z = conv[strides=1, padding=1, dilation=1, groups=2] x, w, like x, like w return z }",
    ],
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.sum_of_products(
        windows::terms(of, [&of.likes[0], &of.likes[1], of.out()]),
        [0, 1, 2],
    )
}
