//! The list of ops. The rules of each op are in its file, in `op/`.
//!
//! To add an op, write its file and add its entry to this list. The documentation of an entry is the
//! row of the op in the book's table of operations. For an op with a kernel, the first paragraph says
//! what the result is, and the second says which shapes the operands and the result have.
//!
//! For an elementwise op, the documentation is also that of its method. An op with a kernel declares
//! its methods in its file, by `methods!`, and its entry is marked with `(methods)`. Methods with
//! other parameters are written by hand in the crate `gradloom`.

use std::fmt;

/// Calls `$callback!` with all ops, by class.
///
/// The first token is a `$`, for callbacks that define macros: a macro cannot write it otherwise.
macro_rules! op_list {
    ($callback:ident) => {
        $callback! { $unary {
                /// `x` as a distinct value that can be differentiated with respect to. Takes every dtype.
                Identity = identity,
                /// `x` as a constant: its derivative is zero. Takes floats and integers.
                StopGradient = stop_gradient,
                /// `-x` for each element. Integers wrap.
                Neg = neg,
                /// `|x|`, the absolute value of each element. Integers wrap.
                Abs = abs,
                /// The sign of each element: -1, 0 or 1. Zeros keep their sign, and NaN stays NaN.
                Sign = sign,
                /// `exp(x)` for each element. Takes floats.
                Exp = exp,
                /// `log(x)`, the natural logarithm of each element. Takes floats.
                Log = log,
                /// `log(1 + x)` for each element, accurate for small `x`. Takes floats.
                Log1p = log1p,
                /// `exp(x) - 1` for each element, accurate for small `x`. Takes floats.
                Expm1 = expm1,
                /// `sqrt(x)` for each element. Takes floats.
                Sqrt = sqrt,
                /// `1 / sqrt(x)` for each element. Takes floats.
                Rsqrt = rsqrt,
                /// `sin(x)` for each element, in radians. Takes floats.
                Sin = sin,
                /// `cos(x)` for each element, in radians. Takes floats.
                Cos = cos,
                /// `tan(x)` for each element, in radians. Takes floats.
                Tan = tan,
                /// `tanh(x)`, the hyperbolic tangent of each element. Takes floats.
                Tanh = tanh,
                /// `1 / (1 + exp(-x))` for each element. Takes floats.
                Sigmoid = sigmoid,
                /// `max(x, 0)` for each element. NaN stays NaN. Takes floats and integers.
                Relu = relu,
                /// `x P(x)` for each element, with the standard normal distribution `P`. Takes floats.
                Gelu = gelu,
                /// The approximation of `gelu` by a hyperbolic tangent. Takes floats.
                GeluTanh = gelu_tanh,
                /// `erf(x)`, the error function of each element. Takes floats.
                Erf = erf,
                /// `1 - erf(x)` for each element, accurate where it is small. Takes floats.
                Erfc = erfc,
                /// `log(1 + exp(x))` for each element, without overflow. Takes floats.
                Softplus = softplus,
                /// `x * x` for each element. Integers wrap.
                Square = square,
                /// `1 / x` for each element. Takes floats.
                Reciprocal = reciprocal,
                /// The angle from -pi/2 to pi/2 with the sine `x`, for each element. Takes floats.
                Asin = asin,
                /// The angle from 0 to pi with the cosine `x`, for each element. Takes floats.
                Acos = acos,
                /// The angle from -pi/2 to pi/2 with the tangent `x`, for each element. Takes floats.
                Atan = atan,
                /// `sinh(x)`, the hyperbolic sine of each element. Takes floats.
                Sinh = sinh,
                /// `cosh(x)`, the hyperbolic cosine of each element. Takes floats.
                Cosh = cosh,
                /// The inverse of `sinh` for each element. Takes floats.
                Asinh = asinh,
                /// The inverse of `cosh` for each element: at least 0, and NaN below 1. Takes floats.
                Acosh = acosh,
                /// The inverse of `tanh` for each element. Takes floats.
                Atanh = atanh,
                /// The cube root of each element, with its sign. Takes floats.
                Cbrt = cbrt,
                /// `2^x` for each element, exact for integers. Takes floats.
                Exp2 = exp2,
                /// The logarithm of each element to base 2, exact for powers of two. Takes floats.
                Log2 = log2,
                /// The logarithm of each element to base 10. Takes floats.
                Log10 = log10,
                /// The greatest integer that is at most `x`, for each element. Integers stay as they are.
                Floor = floor,
                /// The least integer that is at least `x`, for each element. Integers stay as they are.
                Ceil = ceil,
                /// The nearest integer of each element; of two, the even one. Integers stay as they are.
                Round = round,
                /// Each element without its fraction. Integers stay as they are.
                Trunc = trunc,
                /// The inverse of `erf` for each element, from -1 to 1. Takes floats.
                ErfInv = erf_inv,
                /// `exp(x^2) erfc(x)` for each element, without overflow for positive ones. Takes floats.
                ///
                /// The relative error of the derivative grows with `x^2`.
                Erfcx = erfcx,
                /// The inverse of `ndtr` for each element: the number up to which the standard normal
                /// distribution has the probability `x`. Takes floats.
                Ndtri = ndtri,
                /// `log(|gamma(x)|)`, the logarithm of the gamma function of each element. Takes floats.
                Lgamma = lgamma,
                /// The derivative of `lgamma` at each element. Takes floats.
                Digamma = digamma,
                /// `I0(x)`, the modified Bessel function of order 0, of each element. Takes floats.
                I0 = i0,
                /// `exp(-|x|) I0(x)` for each element, without overflow. Takes floats.
                I0e = i0e,
                /// `I1(x)`, the modified Bessel function of order 1, of each element. Takes floats.
                I1 = i1,
                /// `exp(-|x|) I1(x)` for each element, without overflow. Takes floats.
                I1e = i1e,
                /// The integral of `exp(-t) / t` from each element to infinity. It is infinite at 0, and NaN
                /// for negative elements. Takes floats.
                Exp1 = exp1,
                /// The integral of `exp(t) / t` from negative infinity to each element, a principal value for
                /// positive ones. Takes floats.
                Expi = expi,
                /// The integral of `log(t) / (1 - t)` from 1 to each element: the dilogarithm of `1 - x`.
                /// NaN for negative elements. Takes floats.
                Spence = spence,
                /// `x sigmoid(x)` for each element, also called swish. Takes floats.
                Silu = silu,
                /// `log(sigmoid(x))` for each element, without overflow. Takes floats.
                LogSigmoid = log_sigmoid,
                /// `x tanh(softplus(x))` for each element. Takes floats.
                Mish = mish,
                /// `x / (1 + |x|)` for each element. Takes floats.
                Softsign = softsign,
                /// `s x` for `x > 0` and `s a (exp(x) - 1)` elsewhere, with `s = 1.0507..` and `a = 1.6732..`.
                /// Takes floats.
                Selu = selu,
                /// `x` limited to the range from 0 to 6, for each element. Takes floats.
                Relu6 = relu6,
                /// `x` limited to the range from -1 to 1, for each element. Takes floats.
                HardTanh = hard_tanh,
                /// `(x + 3) / 6` limited to the range from 0 to 1, for each element. Takes floats.
                HardSigmoid = hard_sigmoid,
                /// `x hard_sigmoid(x)` for each element. Takes floats.
                HardSwish = hard_swish,
                /// Whether each element is NaN, as `bool`. Takes floats.
                IsNan = is_nan,
                /// Whether each element is neither NaN nor infinite, as `bool`. Takes floats.
                IsFinite = is_finite,
                /// Whether each element is infinite, as `bool`. Takes floats.
                IsInfinite = is_infinite,
                /// Whether the sign of each element is negative, as `bool`: also of -0. Takes floats.
                Signbit = signbit,
                /// `!x` for each element: the other truth value, or all bits of an integer inverted.
                BitNot = bit_not,
            }
            binary {
                /// `x + y` element by element, with broadcasting. Integers wrap.
                Add = add,
                /// `x - y` element by element, with broadcasting. Integers wrap.
                Sub = sub,
                /// `x * y` element by element, with broadcasting. Integers wrap.
                Mul = mul,
                /// `x / y` element by element, with broadcasting.
                ///
                /// Integer division rounds towards zero and wraps. Division of an integer by zero is an
                /// error when the result is computed.
                Div = div,
                /// `x` to the power of `y`, element by element, with broadcasting.
                ///
                /// `0^0` is 1. Integers wrap, and a negative power `x^-n` of an integer is the integer
                /// quotient `1 / x^n`. A negative power of the integer 0 is an error when the result is
                /// computed.
                ///
                /// A known exponent of 1, 2 or 3 takes a product, `x^3` to 2 ulp. Any other takes a
                /// logarithm, so `sqrt`, `rsqrt` and `reciprocal` are much faster than their powers.
                Pow = pow,
                /// The larger of two elements, with broadcasting; NaN if either is NaN.
                Maximum = maximum,
                /// The smaller of two elements, with broadcasting; NaN if either is NaN.
                Minimum = minimum,
                /// The remainder of `x / y` rounded towards zero, with broadcasting: the sign is that of `x`.
                ///
                /// Division of an integer by zero is an error when the result is computed.
                Rem = rem,
                /// The remainder of `x / y` rounded down, with broadcasting: the sign is that of `y`.
                ///
                /// Division of an integer by zero is an error when the result is computed.
                ModFloor = mod_floor,
                /// The angle of the point `(y, x)`, from -pi to pi, with broadcasting: the arctangent of
                /// `x / y`, in the right quadrant. Takes floats.
                Atan2 = atan2,
                /// `sqrt(x^2 + y^2)` element by element, with broadcasting, without overflow. Takes floats.
                ///
                /// The derivative at the origin is 0.
                Hypot = hypot,
                /// `log(exp(x) + exp(y))` element by element, with broadcasting, without overflow. Takes
                /// floats.
                Logaddexp = logaddexp,
                /// The derivative of `digamma` of order `y` at `x`, with broadcasting. Takes floats.
                ///
                /// The order is rounded to an integer, so the derivative in it is 0. A negative order
                /// gives NaN.
                Polygamma = polygamma,
                /// The generalised exponential integral of order `y` at `x`, with broadcasting: the integral of
                /// `exp(-x t) t^-y` over `t` from 1 on. NaN for negative `x`. Takes floats.
                ///
                /// The order is rounded to an integer, so the derivative in it is 0.
                Expn = expn,
                /// The regularised lower incomplete gamma function of `x` and `y`, with broadcasting: the
                /// probability that a gamma distribution of shape `x` gives to numbers up to `y`. Takes
                /// floats.
                ///
                /// Negative operands give NaN. The derivatives in `x` are NaN from the fifth one on.
                Gammainc = gammainc,
                /// The regularised upper incomplete gamma function of `x` and `y`, with broadcasting: 1 minus
                /// `gammainc`, accurate where it is small. Takes floats.
                ///
                /// Negative operands give NaN. The derivatives in `x` are NaN from the fifth one on.
                Gammaincc = gammaincc,
                /// The Hurwitz zeta function, the sum of `(y + k)^-x` over `k >= 0`, with broadcasting. Takes
                /// floats.
                ///
                /// It is infinite for `x = 1`, and NaN for `x < 1`. A negative `y` needs an integer `x`, and
                /// gives infinity if it is one. The derivatives in `x` are NaN from the fifth one on, and
                /// for `y <= 0`.
                Zeta = zeta,
                /// The next number of the dtype after `x` towards `y`; `y` if they are equal. Takes floats.
                Nextafter = nextafter,
                /// `x` for `x > 0` and `y (exp(x) - 1)` elsewhere, with broadcasting. Takes floats.
                Elu = elu,
                /// `x` for `x > 0` and `y (exp(x / y) - 1)` elsewhere, with broadcasting. Takes floats.
                Celu = celu,
                /// `x` for `x >= 0` and `y x` elsewhere, with broadcasting. Takes floats.
                LeakyRelu = leaky_relu,
                /// `x log(y)` with broadcasting, and 0 where `x` is 0. Takes floats.
                Xlogy = xlogy,
                /// `x log(1 + y)` with broadcasting, accurate for small `y`, and 0 where `x` is 0. Takes
                /// floats.
                Xlog1py = xlog1py,
                /// `x & y` with broadcasting, of bools or of the bits of integers.
                BitAnd = bit_and,
                /// `x | y` with broadcasting, of bools or of the bits of integers.
                BitOr = bit_or,
                /// `x ^ y` with broadcasting, of bools or of the bits of integers.
                BitXor = bit_xor,
                /// `x << y` with broadcasting, of integers: 0 if `y` is negative or all bits are shifted out.
                ShiftLeft = shift_left,
                /// `x >> y` with broadcasting, of integers, which keep their sign: 0 or -1 if `y` is negative
                /// or all bits are shifted out.
                ShiftRight = shift_right,
                /// The greatest common divisor of the magnitudes of `x` and `y`, with broadcasting, of
                /// integers; 0 if both are 0.
                Gcd = gcd,
            }
            compare {
                /// `x == y` element by element, with broadcasting, as `bool`.
                Eq = eq,
                /// `x != y` element by element, with broadcasting, as `bool`.
                Ne = ne,
                /// `x < y` element by element, with broadcasting, as `bool`.
                Lt = lt,
                /// `x <= y` element by element, with broadcasting, as `bool`.
                Le = le,
                /// `x > y` element by element, with broadcasting, as `bool`.
                Gt = gt,
                /// `x >= y` element by element, with broadcasting, as `bool`.
                Ge = ge,
            }
            kernel {
                /// `c ? x : y` element by element, with broadcasting. The condition `c` is `bool`.
                ///
                /// Three shapes that broadcast to the broadcast shape; the first is `bool`.
                Select = select,
                /// The regularised incomplete beta function.
                ///
                /// Three shapes that broadcast to the broadcast shape.
                Betainc = betainc(methods),
                /// A derivative of `betainc` in its parameters. The fourth operand gives the orders.
                ///
                /// Four shapes that broadcast to the broadcast shape.
                BetaincDab = betainc_dab,
                /// The slope of `betainc` in its argument, or a derivative of it in the parameters.
                ///
                /// Four shapes that broadcast to the broadcast shape.
                BetaDensity = beta_density,
                /// A derivative of `gammainc` in its first operand. The third operand is the order.
                ///
                /// Three shapes that broadcast to the broadcast shape.
                GammaincDa = gammainc_da,
                /// The slope of `gammainc` in its second operand, or a derivative of it in the first.
                ///
                /// Three shapes that broadcast to the broadcast shape.
                GammaDensity = gamma_density,
                /// A derivative of `zeta` in its first operand. The third operand is the order.
                ///
                /// Three shapes that broadcast to the broadcast shape.
                ZetaDs = zeta_ds,
                /// The elements converted to another dtype.
                ///
                /// Same shape, another dtype.
                Cast = cast(methods),
                /// The transpose of `cast`.
                ///
                /// Same shape, the dtype of the second operand.
                CastT = cast_t,
                /// A number with the dtype of another tensor: `2.0` in `x * 2.0`.
                ///
                /// Rank 0, the dtype of the other operand.
                Scalar = scalar,
                /// A tensor filled with one number, with the dtype and shape of another tensor.
                ///
                /// The shape and dtype of the operand.
                FullLike = full_like(methods),
                /// A tensor repeated along additional axes, or axes of length 1, to the shape of another.
                ///
                /// The shape of the second operand.
                BroadcastLike = broadcast_like(methods),
                /// The transpose of `broadcast_like`: the sum over the repeated axes.
                ///
                /// The shape before the broadcast.
                Unbroadcast = unbroadcast,
                /// The sum over axes; of `bool`, as `i64`. Integers wrap.
                ///
                /// The axes are dropped, or kept with length 1.
                Sum = sum(methods),
                /// The transpose of `sum`: a tensor repeated along axes.
                ///
                /// The shape before the sum.
                SumT = sum_t,
                /// The mean over axes; of integers and `bool`, as `f64`. The mean of no elements is NaN.
                ///
                /// The axes are dropped, or kept with length 1.
                Mean = mean(methods),
                /// The transpose of `mean`: a tensor repeated along axes and divided by the count.
                ///
                /// The shape before the mean.
                MeanT = mean_t,
                /// The matrix product of the last two axes, with broadcasting of the others.
                ///
                /// `[.., m, k]` by `[.., k, n]` to `[.., m, n]`; leading axes broadcast; a vector is a row
                /// on the left and a column on the right.
                Matmul = matmul(methods),
                /// The transpose of `matmul` in its first operand.
                ///
                /// The shape of the left factor.
                MatmulLhsT = matmul_lhs_t,
                /// The transpose of `matmul` in its second operand.
                ///
                /// The shape of the right factor.
                MatmulRhsT = matmul_rhs_t,
                /// Tensors concatenated along an axis. Their other axes have equal lengths.
                ///
                /// The lengths of the axis add up, other axes are equal.
                Concat = concat,
                /// The transpose of `concat`: the parts of a tensor at the positions of the operands.
                ///
                /// The shapes of the operands.
                ConcatT = concat_t,
                /// Tensors of one shape stacked along an additional axis.
                ///
                /// Equal shapes; an axis is added, as long as the list.
                Stack = stack,
                /// Consecutive parts of a tensor along an axis.
                ///
                /// The axis cut into equal parts, or into the given sizes.
                Split = split,
                /// The slices of a tensor at each index of an axis, without that axis.
                ///
                /// One result for each index of the axis, which is dropped.
                Unbind = unbind,
                /// The tensor with its axes in reverse order.
                ///
                /// All axes reversed.
                Transpose = transpose(methods),
                /// The tensor with its axes in a given order.
                ///
                /// Axis `i` of the result is axis `axes[i]` of the operand.
                Permute = permute(methods),
                /// The transpose of `permute`: the tensor with its axes in their original order.
                ///
                /// The inverse order of axes.
                PermuteT = permute_t,
                /// The tensor with two axes swapped.
                ///
                /// Two axes exchanged.
                SwapAxes = swap_axes(methods),
                /// The tensor with one axis moved to another position.
                ///
                /// One axis moved, the others in order.
                Moveaxis = moveaxis(methods),
                /// The elements in row-major order, in another shape.
                ///
                /// The given shape, with the same number of elements; one length may be -1.
                Reshape = reshape(methods),
                /// The transpose of `reshape`: the elements in their original shape.
                ///
                /// The shape before.
                ReshapeT = reshape_t,
                /// The tensor without given axes of length 1.
                ///
                /// Axes of length 1 dropped.
                Squeeze = squeeze(methods),
                /// The tensor with additional axes of length 1.
                ///
                /// Axes of length 1 added; numbers count in the result.
                Unsqueeze = unsqueeze(methods),
                /// A range of indices of each axis.
                ///
                /// Each leading axis cut to `start..stop` by `step`, other axes whole.
                Slice = slice(methods),
                /// The transpose of `slice`: a tensor placed among zeros.
                ///
                /// The shape before, zeros elsewhere.
                SliceT = slice_t,
                /// A tensor repeated along additional axes, or axes of length 1, to a given shape.
                ///
                /// The given shape, to which that of the operand broadcasts.
                BroadcastTo = broadcast_to(methods),
                /// A tensor filled with one number.
                ///
                /// The given shape.
                Full = full,
                /// The numbers `0, 1, 2, ...` as a tensor of rank 1.
                ///
                /// `[len]`.
                Iota = iota,
                /// The index of the largest element over axes, as `i64`; the first of equal ones.
                ///
                /// The axes are dropped, or kept with length 1; dtype `i64`.
                Argmax = argmax(methods),
                /// The index of the smallest element over axes, as `i64`; the first of equal ones.
                ///
                /// The axes are dropped, or kept with length 1; dtype `i64`.
                Argmin = argmin(methods),
                /// A row for each label: 1 at the label, 0 elsewhere. All 0 if the label is out of range.
                ///
                /// Integer labels `[..]` to `[.., classes]`.
                OneHot = one_hot(methods),
                /// The largest element over axes; NaN if there is one.
                ///
                /// The axes are dropped, or kept with length 1.
                Max = max(methods),
                /// The smallest element over axes; NaN if there is one.
                ///
                /// The axes are dropped, or kept with length 1.
                Min = min(methods),
                /// `exp(x) / sum(exp(x))` along an axis, without overflow. Takes floats.
                ///
                /// Same shape.
                Softmax = softmax(methods),
                /// The Jacobian of `softmax`, applied to a tensor.
                ///
                /// Same shape.
                SoftmaxT = softmax_t,
                /// `x - logsumexp(x)` along an axis: the logarithm of `softmax`. Takes floats.
                ///
                /// Same shape.
                LogSoftmax = log_softmax(methods),
                /// The Jacobian of `log_softmax`, applied to a tensor.
                ///
                /// Same shape.
                LogSoftmaxJvp = log_softmax_jvp,
                /// The transpose of `log_softmax_jvp`.
                ///
                /// Same shape.
                LogSoftmaxVjp = log_softmax_vjp,
                /// `log(sum(exp(x)))` over axes, without overflow. Takes floats.
                ///
                /// The axes are dropped, or kept with length 1.
                Logsumexp = logsumexp(methods),
                /// The mean over rows of `logsumexp(x) - x[label]`. A label out of range is an error.
                ///
                /// Logits `[.., classes]`, integer labels `[..]`, result of rank 0.
                CrossEntropy = cross_entropy(methods),
                /// The softmax of each row, minus 1 at its label: the gradient of the cross entropy.
                ///
                /// The shape of the logits.
                CrossEntropyGrad = cross_entropy_grad,
                /// `(x - mean) / sqrt(var + eps)` over axes, with the biased variance. Takes floats.
                ///
                /// Same shape.
                Normalize = normalize(methods),
                /// The Jacobian of `normalize`, applied to a tensor.
                ///
                /// Same shape.
                NormalizeT = normalize_t,
                /// `1 / sqrt(var + eps)` over axes, with the biased variance.
                ///
                /// The axes kept with length 1.
                InvStd = inv_std,
                /// `normalize(x) w + b` over the last axis, with a weight and a bias. Takes floats.
                ///
                /// `x` of `[.., n]`, weight and bias of `[n]`; the shape of `x`.
                LayerNorm = layer_norm(methods),
                /// The Jacobian of `layer_norm` or `rms_norm`, applied to tangents.
                ///
                /// The shape of `x`.
                NormJvp = norm_jvp,
                /// The transpose of `norm_jvp`.
                ///
                /// The shapes of `x`, weight and bias.
                NormVjp = norm_vjp,
                /// `softmax(q k^T / sqrt(d)) v`: for each query, a weighted mean of the values.
                ///
                /// Queries `[.., n, d]`, keys `[.., m, d]`, values `[.., m, e]`, result `[.., n, e]`; a
                /// mask of bools broadcasts to `[.., n, m]`.
                Attention = attention(methods),
                /// `logsumexp(q k^T / sqrt(d))` over the keys, for each query.
                ///
                /// `[.., n, d]` and `[.., m, d]` to `[.., n]`.
                AttentionLse = attention_lse,
                /// The Jacobian of `attention`, applied to tangents.
                ///
                /// The shape of the result of `attention`.
                AttentionJvp = attention_jvp,
                /// The transpose of `attention_jvp`.
                ///
                /// The shapes of queries, keys and values.
                AttentionVjp = attention_vjp,
                /// The lower triangle of each matrix: zeros to the right of a diagonal.
                ///
                /// Same shape.
                Tril = tril(methods),
                /// `x / sqrt(mean(x^2) + eps) w` over the last axis, with a weight. Takes floats.
                ///
                /// `x` of `[.., n]`, weight of `[n]`; the shape of `x`.
                RmsNorm = rms_norm(methods),
                /// The slices of a tensor at indices of an axis. An index out of range is an error.
                ///
                /// The axis is replaced by the axes of the indices; `take_along_axis` has indices for each
                /// row, which broadcast.
                Take = take(methods),
                /// The transpose of `take`: slices added to zeros at indices of an axis.
                ///
                /// The shape before.
                TakeT = take_t,
                /// A tensor with slices replaced or added to at indices of an axis.
                ///
                /// The shape of the tensor; updates have the shape of `take` with the same indices.
                Scatter = scatter(methods),
                /// A tensor with the maximum or minimum of its slices and of updates at indices of an axis.
                ///
                /// As `scatter`.
                ScatterExtreme = scatter_extreme(methods),
                /// The slice of a tensor at one index of an axis.
                ///
                /// The axis is dropped.
                SelectIndex = select_index(methods),
                /// The transpose of `select_index`: a slice placed among zeros.
                ///
                /// The shape before, zeros elsewhere.
                SelectIndexT = select_index_t,
                /// A tensor with a range of indices of each axis replaced.
                ///
                /// The shape of the tensor; updates have the shape of `slice` with the same ranges.
                SetSlice = set_slice(methods),
                /// A part of a tensor, from an index of each axis that is computed.
                ///
                /// Each leading axis cut to the given length, other axes whole.
                DynamicSlice = dynamic_slice(methods),
                /// As `dynamic_slice`, with the lengths of another tensor.
                ///
                /// The shape of the last operand.
                DynamicSliceLike = dynamic_slice_like,
                /// The transpose of `dynamic_slice_like`: a part placed among zeros.
                ///
                /// The shape before, zeros elsewhere.
                DynamicSliceT = dynamic_slice_t,
                /// A tensor with a part replaced, from an index of each axis that is computed.
                ///
                /// The shape of the tensor; updates have the shape of the part.
                DynamicUpdateSlice = dynamic_update_slice(methods),
                /// The sum of the rows of each segment. A segment out of range is an error.
                ///
                /// Rows `[.., n]`, integers `[..]`, result `[segments, n]`.
                SegmentSum = segment_sum(methods),
                /// The transpose of `segment_sum`: the row of the segment of each integer.
                ///
                /// The shape before.
                SegmentSumT = segment_sum_t,
                /// A key derived from a key and a number: `key.fold_in(data)` and the methods that split keys.
                ///
                /// Two words to two words.
                FoldIn = fold_in,
                /// Random integers from 0 to 2^32 - 1, as `i64`: `key.bits(shape)`.
                ///
                /// The given shape; dtype `i64`.
                RandomBits = random_bits,
                /// Random floats, uniform in `[0, 1)`: `key.uniform(shape, dtype)`.
                ///
                /// The given shape.
                RandomUniform = random_uniform,
                /// Random floats of the standard normal distribution: `key.normal(shape, dtype)`.
                ///
                /// The given shape.
                RandomNormal = random_normal,
                /// Random bools that are true with a given probability: `key.bernoulli(p, shape)`.
                ///
                /// The given shape; dtype `bool`.
                RandomBernoulli = random_bernoulli,
                /// The numbers `0, 1, 2, ...` in a random order, as `i64`: `key.permutation(n)`.
                ///
                /// `[n]`; dtype `i64`.
                RandomPermutation = random_permutation,
                /// The convolution of `[n, c, lens..]` with weights, over 1 to 3 axes. Integers wrap.
                ///
                /// `[n, c, lens..]` by `[o, c / groups, window..]` to `[n, o, ..]`.
                Conv = conv(methods),
                /// The transpose of `conv` in its input.
                ///
                /// The shape of the input.
                ConvInputT = conv_input_t,
                /// The transpose of `conv` in its weights.
                ///
                /// The shape of the weights.
                ConvWeightT = conv_weight_t,
                /// The transposed convolution of `[n, c, lens..]` with weights, over 1 to 3 axes.
                ///
                /// `[n, c, lens..]` by `[c, o / groups, window..]` to `[n, o, ..]`.
                ConvTranspose = conv_transpose(methods),
                /// The sum or the mean of each window that slides along the last axes.
                ///
                /// The numbers of windows instead of the lengths of the last axes.
                SumPool = sum_pool(methods),
                /// The transpose of `sum_pool`.
                ///
                /// The shape before.
                SumPoolT = sum_pool_t,
                /// The largest element of each window that slides along the last axes.
                ///
                /// The numbers of windows instead of the lengths of the last axes.
                MaxPool = max_pool(methods),
                /// The Jacobian of `max_pool`, applied to a tensor.
                ///
                /// The shape after pooling.
                MaxPoolJvp = max_pool_jvp,
                /// The transpose of `max_pool_jvp`.
                ///
                /// The shape before pooling.
                MaxPoolVjp = max_pool_vjp,
                /// Each element repeated along the last axes: nearest-neighbour upsampling.
                ///
                /// The lengths of the last axes times the factors.
                Upsample = upsample(methods),
                /// The transpose of `upsample`: a sum over the repetitions.
                ///
                /// The shape before.
                UpsampleT = upsample_t,
                /// The sum of the elements up to each one along axes. Integers wrap.
                ///
                /// Same shape.
                Cumsum = cumsum(methods),
                /// The product of the elements up to each one along axes. Integers wrap.
                ///
                /// Same shape.
                Cumprod = cumprod(methods),
                /// The largest element up to each one along axes; NaN after a NaN.
                ///
                /// Same shape.
                Cummax = cummax(methods),
                /// The smallest element up to each one along axes; NaN after a NaN.
                ///
                /// Same shape.
                Cummin = cummin(methods),
                /// `log(sum(exp(x)))` of the elements up to each one along axes. Takes floats.
                ///
                /// Same shape.
                Cumlogsumexp = cumlogsumexp(methods),
                /// The linear recurrence `y[i] = x[i] + a[i] y[i - 1]` along axes, with factors `a`.
                ///
                /// Two operands of one shape; the same shape.
                Recurrence = recurrence(methods),
                /// The element before each one along axes, and 0 at the start.
                ///
                /// Same shape.
                Shift = shift,
                /// The product over axes. Integers wrap.
                ///
                /// The axes are dropped, or kept with length 1.
                Prod = prod(methods),
                /// Whether an element is true over axes. Takes `bool`.
                ///
                /// The axes are dropped, or kept with length 1.
                Any = any(methods),
                /// Whether every element is true over axes. Takes `bool`.
                ///
                /// The axes are dropped, or kept with length 1.
                All = all(methods),
                /// The solution `y` of `x y = b` for matrices `x`, which may be triangular.
                ///
                /// `[.., n, n]` and `[.., n, k]`, or `[n, n]` and `[n]`, to the shape of the second.
                Solve = solve(methods),
                /// The lower triangular factor `l` of symmetric positive definite matrices `l l^T`.
                ///
                /// `[.., n, n]`; the same shape.
                Cholesky = cholesky(methods),
                /// The inverses of matrices.
                ///
                /// `[.., n, n]`; the same shape.
                Inv = inv(methods),
                /// The determinants of matrices.
                ///
                /// `[.., n, n]` to `[..]`.
                Det = det(methods),
                /// The derivatives of the determinants of matrices by their elements.
                ///
                /// `[.., n, n]`; the same shape.
                Cofactors = cofactors,
                /// The signs of the determinants of matrices, and the logarithms of their magnitudes.
                ///
                /// `[.., n, n]` to two results of shape `[..]`.
                Slogdet = slogdet,
                /// Orthonormal columns and upper triangular matrices whose products are the matrices.
                ///
                /// `[.., m, n]` to `[.., m, k]` and `[.., k, n]`, where `k` is the less of `m` and `n`.
                Qr = qr,
                /// The eigenvalues of symmetric matrices, ascending, and their eigenvectors as columns.
                ///
                /// `[.., n, n]` to `[.., n]` and `[.., n, n]`.
                Eigh = eigh,
                /// The singular values of matrices, descending, between their singular vectors.
                ///
                /// `[.., m, n]` to `[.., m, k]`, `[.., k]` and `[.., k, n]`, where `k` is the less of `m`
                /// and `n`.
                Svd = svd,
                /// The pseudo-inverses of matrices, by their singular values.
                ///
                /// `[.., m, n]` to `[.., n, m]`.
                Pinv = pinv(methods),
                /// The variance over axes; of integers and `bool`, as `f64`.
                ///
                /// The axes are dropped, or kept with length 1.
                Var = var(methods),
                /// The standard deviation over axes; of integers and `bool`, as `f64`.
                ///
                /// The axes are dropped, or kept with length 1.
                Stddev = stddev(methods),
                /// The elements of each row along an axis in order. NaN is the greatest.
                ///
                /// Same shape.
                Sort = sort(methods),
                /// The indices of each row along an axis in the order of its elements, as `i64`.
                ///
                /// Same shape; dtype `i64`.
                Argsort = argsort(methods),
                /// The largest elements along an axis, in descending order. NaN is the greatest.
                ///
                /// The axis has the given length.
                TopK = top_k(methods),
                /// The indices of the largest elements along an axis, as `i64`; the first of equal ones.
                ///
                /// The axis has the given length; dtype `i64`.
                TopKIndices = top_k_indices(methods),
                /// The index at which each value keeps an ascending vector sorted.
                ///
                /// The shape of the values; dtype `i64`.
                Searchsorted = searchsorted(methods),
                /// The elements in reverse order along axes.
                ///
                /// Same shape.
                Flip = flip(methods),
                /// The elements moved along an axis; those past its end come first.
                ///
                /// Same shape.
                Roll = roll(methods),
                /// The upper triangle of each matrix: zeros to the left of a diagonal.
                ///
                /// Same shape.
                Triu = triu(methods),
                /// A diagonal of each matrix of the last two axes.
                ///
                /// The last two axes become one.
                Diagonal = diagonal(methods),
                /// The transpose of `diagonal`: matrices of zeros with a given diagonal.
                ///
                /// The shape before.
                DiagonalT = diagonal_t,
                /// Square matrices of zeros with a given diagonal.
                ///
                /// The last axis becomes two.
                Diag = diag(methods),
                /// The transpose of `diag`: a diagonal of square matrices.
                ///
                /// The last two axes become one.
                DiagT = diag_t,
                /// A square matrix with 1 on the diagonal and 0 elsewhere.
                ///
                /// `[len, len]`.
                Eye = eye,
                /// The elements with a number around them and between them. Elements may be removed.
                ///
                /// Each axis with its padding.
                Pad = pad(methods),
                /// `pad` with zeros, which is linear.
                ///
                /// Each axis with its padding.
                PadZeros = pad_zeros,
                /// The transpose of `pad_zeros`: the elements without their padding.
                ///
                /// The shape before.
                PadZerosT = pad_zeros_t,
                /// The operand, placed on the devices of a mesh as a spec says.
                ///
                /// Same shape.
                ShardingConstraint = sharding_constraint,
            }
            control {
                /// A loop over the slices of tensors along axis 0, with state that each turn replaces.
                Scan = SCAN,
                /// A loop that replaces its state as long as a condition holds.
                While = WHILE,
                /// The pullback of a loop with a condition: the loop again, then its turns backwards.
                WhileBack = WHILE_BACK,
                /// One of several programs, chosen by an index.
                Switch = SWITCH,
                /// A program whose intermediate values reverse mode computes again.
                Checkpoint = CHECKPOINT,
                /// A program with a forward-mode rule of the user.
                CustomJvp = CUSTOM_JVP,
                /// A program with a reverse-mode rule of the user.
                CustomVjp = CUSTOM_VJP,
                /// The linear part of a `custom_vjp`. Emitted only to be transposed.
                CustomLin = CUSTOM_LIN,
                /// The values of a custom function, whose rules are host code.
                Custom = CUSTOM,
                /// The tangents of a `custom`. Replaced by those of its rule when it is recorded.
                CustomTangent = CUSTOM_TANGENT,
                /// The cotangents of a `custom`. Replaced by those of its rule when it is recorded.
                CustomCotangent = CUSTOM_COTANGENT,
                /// The results of a `custom` for all lanes of a batch. Replaced by those of its rule when it is recorded.
                CustomLanes = CUSTOM_LANES,
                /// A kernel of the user, which is host code.
                HostKernel = HOST_KERNEL,
                /// A program that each device of a mesh runs on its parts of the operands.
                ShardMap = SHARD_MAP,
                /// A program that is divided over the devices of a mesh.
                Sharded = SHARDED,
            }
            collective {
                /// One value made of those of all devices of a group: their sum, maximum, minimum or product.
                AllReduce = all_reduce,
                /// The values of all devices of a group, one after the other along an axis.
                AllGather = all_gather,
                /// The part of a value that a device has: the inverse of `all_gather`.
                AllSlice = all_slice,
                /// The part that a device has of the sum of the values of a group.
                ReduceScatter = reduce_scatter,
                /// The parts of the values of a group that belong to a device, one after the other.
                AllToAll = all_to_all,
                /// The value of another device, and zeros if there is none.
                Ppermute = ppermute,
                /// The position of a device in its group, an `i64` of rank 0.
                AxisIndex = axis_index,
                /// A value that is equal on a group of devices, as one that may differ between them.
                Pvary = pvary,
            }
            calls {
                /// A call of a traced function.
                Call = CALL,
                /// A call that also returns the residuals of the callee.
                CallFwd = FWD,
                /// A call of the forward-mode companion of a traced function.
                CallJvp = JVP,
                /// The linear part of a call: tangents from residuals. Emitted only to be transposed.
                CallLin = LIN,
                /// The transpose of `call_lin`: cotangents from residuals.
                CallPull = PULL,
            }
        }
    };
}
pub(crate) use op_list;

macro_rules! define_ops {
    (
        $d:tt
        unary { $($(#[doc = $u_doc:literal])* $u_var:ident = $u_mod:ident,)* }
        binary { $($(#[doc = $b_doc:literal])* $b_var:ident = $b_mod:ident,)* }
        compare { $($(#[doc = $c_doc:literal])* $c_var:ident = $c_mod:ident,)* }
        kernel { $($(#[doc = $k_doc:literal])* $k_var:ident = $k_mod:ident $(($k_methods:ident))?,)* }
        control { $($(#[doc = $p_doc:literal])* $p_var:ident = $p_static:ident,)* }
        collective { $($(#[doc = $s_doc:literal])* $s_var:ident = $s_mod:ident,)* }
        calls { $($(#[doc = $f_doc:literal])* $f_var:ident = $f_static:ident,)* }
    ) => {
        /// The closed set of ops.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Op {
            $($(#[doc = $u_doc])* $u_var,)*
            $($(#[doc = $b_doc])* $b_var,)*
            $($(#[doc = $c_doc])* $c_var,)*
            $($(#[doc = $k_doc])* $k_var,)*
            $($(#[doc = $p_doc])* $p_var,)*
            $($(#[doc = $s_doc])* $s_var,)*
            $($(#[doc = $f_doc])* $f_var,)*
        }

        /// The kernels that the runtime supplies. It matches on this enum exhaustively.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kernel {
            $($(#[doc = $k_doc])* $k_var,)*
        }

        impl Op {
            /// All primitive ops. Ops that run programs, ops on the values of several devices and calls of
            /// traced functions are not primitive.
            pub const ALL: &[Op] = &[
                $(Op::$u_var,)* $(Op::$b_var,)* $(Op::$c_var,)* $(Op::$k_var,)*
            ];
            /// The ops that run programs.
            pub const CONTROL: &[Op] = &[$(Op::$p_var,)*];
            /// The ops on the values of several devices, which only the program of a `shard_map` has.
            pub const COLLECTIVES: &[Op] = &[$(Op::$s_var,)*];
            /// The ops for calls of other traced functions.
            pub const CALLS: &[Op] = &[$(Op::$f_var,)*];

            /// Returns the documentation of the op in the list, one line of text for each line.
            pub const fn doc(self) -> &'static str {
                match self {
                    $(Op::$u_var => concat!($($u_doc, "\n",)*),)*
                    $(Op::$b_var => concat!($($b_doc, "\n",)*),)*
                    $(Op::$c_var => concat!($($c_doc, "\n",)*),)*
                    $(Op::$k_var => concat!($($k_doc, "\n",)*),)*
                    $(Op::$p_var => concat!($($p_doc, "\n",)*),)*
                    $(Op::$s_var => concat!($($s_doc, "\n",)*),)*
                    $(Op::$f_var => concat!($($f_doc, "\n",)*),)*
                }
            }
        }

        /// Calls `$callback!` with `#[doc] name = Variant,` for each unary elementwise op.
        #[macro_export]
        macro_rules! for_each_unary {
            ($d callback:ident) => { $d callback! { $($(#[doc = $u_doc])* $u_mod = $u_var,)* } };
        }
        /// Calls `$callback!` with `#[doc] name = Variant,` for each binary op and comparison.
        #[macro_export]
        macro_rules! for_each_binary {
            ($d callback:ident) => {
                $d callback! { $($(#[doc = $b_doc])* $b_mod = $b_var,)* $($(#[doc = $c_doc])* $c_mod = $c_var,)* }
            };
        }
        /// Calls `$callback!` with `name = Variant,` for each op with a kernel.
        #[macro_export]
        macro_rules! for_each_kernel {
            ($d callback:ident) => { $d callback! { $($k_mod = $k_var,)* } };
        }
        /// Calls `$callback!` with `Variant` and the methods that `methods!` declares, for each op
        /// that is marked with `methods`.
        #[macro_export]
        macro_rules! for_each_methods {
            ($d callback:ident) => { $($( $crate::$k_mod! { $d callback $k_var $k_methods } )?)* };
        }
        /// Calls `$callback!` with `#[doc] name = Variant,` for each primitive op.
        #[macro_export]
        macro_rules! for_each_op {
            ($d callback:ident) => {
                $d callback! {
                    $($(#[doc = $u_doc])* $u_mod = $u_var,)*
                    $($(#[doc = $b_doc])* $b_mod = $b_var,)*
                    $($(#[doc = $c_doc])* $c_mod = $c_var,)*
                    $($(#[doc = $k_doc])* $k_mod = $k_var,)*
                }
            };
        }
    };
}

op_list!(define_ops);

/// The number of operands of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// The given numbers of data operands and of `Like` operands.
    Fixed(usize, usize),
    /// From the first to the second number of data operands, inclusive.
    Between(usize, usize),
    /// At least one data operand.
    Many,
    /// Any number of data operands.
    Any,
    /// At least one data operand, then as many `Like` operands.
    ManyLike,
    /// One data operand, then at least one `Like` operand.
    OneManyLike,
}

impl Operands {
    /// Returns how many of `n_args` operands are data operands.
    pub fn n_data(self, n_args: usize) -> usize {
        match self {
            Operands::Fixed(data, _) => data,
            Operands::Between(..) | Operands::Many | Operands::Any => n_args,
            Operands::ManyLike => n_args / 2,
            Operands::OneManyLike => 1,
        }
    }

    /// Returns whether an op can have `n_args` operands.
    pub fn fits(self, n_args: usize) -> bool {
        match self {
            Operands::Fixed(data, likes) => n_args == data + likes,
            Operands::Between(least, most) => (least..=most).contains(&n_args),
            Operands::Many => n_args >= 1,
            Operands::Any => true,
            Operands::ManyLike => n_args >= 2 && n_args.is_multiple_of(2),
            Operands::OneManyLike => n_args >= 2,
        }
    }
}

impl fmt::Display for Operands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Operands::Fixed(data, likes) => {
                let s = |n: usize| if n == 1 { "" } else { "s" };
                write!(f, "{data} operand{}", s(data))?;
                if likes > 0 {
                    write!(f, " and {likes} like{}", s(likes))?;
                }
                Ok(())
            }
            Operands::Between(least, most) => write!(f, "{least} to {most} operands"),
            Operands::Many => write!(f, "at least 1 operand"),
            Operands::Any => write!(f, "any number of operands"),
            Operands::ManyLike => write!(f, "at least 1 operand, each with its like"),
            Operands::OneManyLike => write!(f, "1 operand and at least 1 like"),
        }
    }
}
