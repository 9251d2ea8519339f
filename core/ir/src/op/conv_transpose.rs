use super::class::same_numbers;
use super::nd_array::{Application, NdArray};
use super::{
    Count, Kernel, Laws, Nonlinear, NonlinearRule, OpFacts, Operands, conv_input_t, windows,
};
use crate::Op;

methods! { conv_transpose {
    /// Transposed convolution of `[n, c, lens..]` with weights `[c, o / groups, window..]`.
    ///
    /// This is the transpose of the convolution with the same arguments that maps the shape of the
    /// result, `[n, o, ..]`, to that of `self`: each element of `self` adds a multiple of the
    /// weights to the result. An axis of length `len` becomes `(len - 1) * stride + (window - 1) *
    /// dilation + 1` minus the padding. A smaller padding at the end lengthens the result.
    ///
    /// The arguments are those of [`Tensor::conv`]. With the padding `..`, an axis becomes
    /// `len * stride`.
    ///
    /// ```
    /// # use gradloom::Tensor;
    /// let x = Tensor::from([[[1.0f32, 2.0, 3.0]]]);
    /// let w = Tensor::from([[[1.0f32, 10.0]]]);
    /// let y = x.conv_transpose(&w, 2, 0, 1, 1);
    /// assert_eq!(y.to_vec::<f32>(), [1.0, 10.0, 2.0, 20.0, 3.0, 30.0]);
    /// ```
    ///
    /// # Panics
    ///
    /// If the shapes or dtypes do not match, the padding is longer than the result, an axis of length
    /// 0 becomes longer, `groups` does not divide the channels, or a stride or dilation is less than
    /// 1.
    fn conv_transpose(x: Data, weights: Data, strides: Static, padding: Static, dilation: Static, groups: Static);
} }

/// `conv_transpose[strides, padding, dilation, groups] c, w`: `conv_input_t` to the least shape.
pub(super) static OP: Nonlinear = Nonlinear {
    name: "conv_transpose",
    operands: Operands::Fixed(2, 0),
    statics: &windows::CONV,
    shape: |statics, args| windows::convolved_back(statics, &args[0].shape, &args[1].shape),
    dtype: |_, args| same_numbers(args),
    methods: METHODS,
    // dx = input_t(dc, w) + input_t(c, dw)
    rule: NonlinearRule::Tangent(|b, eqn, dx| {
        let (c, w, x) = (eqn.args[0], eqn.args[1], eqn.out());
        let left = dx[0].map(|d| b.emit(Op::ConvInputT, &eqn.attrs, &[d, w, x, w]));
        let right = dx[1].map(|d| b.emit(Op::ConvInputT, &eqn.attrs, &[c, d, x, w]));
        b.add_tangents(left, right)
    }),
    kernel: Kernel::ConvTranspose,
    count: Count::Convolution {
        windows: 0,
        weights: 1,
    },
    facts: OpFacts::opaque(conv_input_t::AXES),
    laws: Laws::new(
        (-2.0, 2.0),
        &[
            "(c: f64[2, 3, 4], w: f64[3, 2, 2]) { z = conv_transpose[strides=1, padding=0, dilation=1, groups=1] c, w return z }",
            "(c: f64[1, 2, 3], w: f64[2, 2, 3]) { z = conv_transpose[strides=[2], padding=[2, 1], dilation=[2], groups=2] c, w return z }",
            "(c: f64[2, 3, 2, 3], w: f64[3, 1, 2, 2]) { z = conv_transpose[strides=[2, 1], padding=all, dilation=[1, 2], groups=1] c, w return z }",
            "(c: f64[1, 2, 2, 2], w: f64[2, 1, 2, 3]) { z = conv_transpose[strides=2, padding=[1, 0, 1, -1], dilation=1, groups=2] c, w return z }",
            "(c: f64[1, 1, 2, 1, 2], w: f64[1, 2, 1, 2, 2]) { z = conv_transpose[strides=1, padding=0, dilation=1, groups=1] c, w return z }",
            "(c: f64[0, 2, 2], w: f64[2, 2, 2]) { z = conv_transpose[strides=1, padding=0, dilation=1, groups=1] c, w return z }",
            "(c: f64[1, 2, 0], w: f64[2, 2, 1]) { z = conv_transpose[strides=1, padding=0, dilation=1, groups=1] c, w return z }",
            "(c: i64[2, 2, 3], w: i64[2, 2, 2]) { z = conv_transpose[strides=2, padding=0, dilation=1, groups=1] c, w return z }",
        ],
    ),
};

/// The definition of the op.
pub(super) fn reference(of: &Application<'_>) -> NdArray {
    of.sum_of_products(
        windows::terms(of, [of.out(), &of.y().shape, &of.x().shape]),
        [2, 1, 0],
    )
}
