//! The op table. Each op has a file, whose `OP` holds its rules.
//!
//! To add an op, write its file and add its line to `ops!`.
//!
//! An op first takes *data* operands, whose values it reads, and then *like* operands, of which it
//! reads only dtype and shape. A like operand has no tangent and keeps no buffer alive.
//!
//! A *linear* op is one that a `jvp` rule may apply to tangents, so it has a `transpose`. One law
//! makes every linear program transposable even if shapes are unknown: **no op broadcasts a linear
//! operand implicitly**. The operand has the shape of the result, or the op carries the shapes it
//! needs as like operands. These are *primal* values, because tangents do not exist in the
//! transposed program. `Builder::broadcast` broadcasts a tangent to the shape of a result.
//!
//! The rules are the methods of [`OpDef`]. Most ops are values of a class that implements it:
//! [`Unary`], [`Binary`], [`Compare`], [`Linear`], [`Nonlinear`] or [`Jacobian`].

mod active;
pub mod call;
mod count;
mod def;
mod elementwise;
mod jacobian;
mod linear;
#[macro_use]
mod loops;
mod method;
mod nonlinear;
pub mod shape;
mod special;

pub use count::{Count, Ops};
pub(crate) use def::not_linear;
pub use def::{Diff, Eval, Laws, OpDef, Operands};
pub use elementwise::{Binary, BinaryRule, BinaryTranspose, Compare, Unary, UnaryRule};
pub use jacobian::Jacobian;
pub use linear::Linear;
pub use loops::{BinaryFns, BinaryLoop, CompareFns, CompareLoop, UnaryFns, UnaryLoop};
pub use method::{Method, Param};
pub use nonlinear::{InferRule, Nonlinear, NonlinearRule};

use crate::{Aval, DType, Dim, Fault, OpError, Static};
use std::fmt;
use std::sync::OnceLock;

macro_rules! ops {
    (
        $d:tt
        unary { $($(#[$u_doc:meta])* $u_var:ident = $u_mod:ident,)* }
        binary { $($(#[$b_doc:meta])* $b_var:ident = $b_mod:ident,)* }
        compare { $($(#[$c_doc:meta])* $c_var:ident = $c_mod:ident,)* }
        kernel { $($(#[$k_doc:meta])* $k_var:ident = $k_mod:ident,)* }
        calls { $($(#[$f_doc:meta])* $f_var:ident = $f_static:ident,)* }
    ) => {
        $(mod $u_mod;)* $(mod $b_mod;)* $(mod $c_mod;)* $(mod $k_mod;)*

        /// The scalar functions of the elementwise ops: a module for each op.
        ///
        /// Each module has a function for each dtype.
        pub mod element {
            $($(#[$u_doc])* pub mod $u_mod { pub use super::super::$u_mod::element::*; })*
            $($(#[$b_doc])* pub mod $b_mod { pub use super::super::$b_mod::element::*; })*
            $($(#[$c_doc])* pub mod $c_mod { pub use super::super::$c_mod::element::*; })*
        }

        /// The closed set of ops.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Op {
            $($(#[$u_doc])* $u_var,)*
            $($(#[$b_doc])* $b_var,)*
            $($(#[$c_doc])* $c_var,)*
            $($(#[$k_doc])* $k_var,)*
            $($(#[$f_doc])* $f_var,)*
        }

        /// The kernels that the runtime supplies. It matches on this enum exhaustively.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kernel {
            $($(#[$k_doc])* $k_var,)*
        }

        impl Op {
            /// All primitive ops. Calls of traced functions are not primitive.
            pub const ALL: &[Op] = &[
                $(Op::$u_var,)* $(Op::$b_var,)* $(Op::$c_var,)* $(Op::$k_var,)*
            ];
            /// The ops for calls of other traced functions.
            pub const CALLS: &[Op] = &[$(Op::$f_var,)*];

            /// Returns the rules of this op.
            pub fn def(self) -> &'static dyn OpDef {
                match self {
                    $(Op::$u_var => &$u_mod::OP,)*
                    $(Op::$b_var => &$b_mod::OP,)*
                    $(Op::$c_var => &$c_mod::OP,)*
                    $(Op::$k_var => &$k_mod::OP,)*
                    $(Op::$f_var => &call::$f_static,)*
                }
            }
        }

        /// Calls `$callback!` with `#[doc] name = Variant,` for each unary elementwise op.
        #[macro_export]
        macro_rules! for_each_unary {
            ($d callback:ident) => { $d callback! { $($(#[$u_doc])* $u_mod = $u_var,)* } };
        }
        /// Calls `$callback!` with `#[doc] name = Variant,` for each binary op and comparison.
        #[macro_export]
        macro_rules! for_each_binary {
            ($d callback:ident) => {
                $d callback! { $($(#[$b_doc])* $b_mod = $b_var,)* $($(#[$c_doc])* $c_mod = $c_var,)* }
            };
        }
        /// Calls `$callback!` with `#[doc] name = Variant,` for each primitive op.
        #[macro_export]
        macro_rules! for_each_op {
            ($d callback:ident) => {
                $d callback! {
                    $($(#[$u_doc])* $u_mod = $u_var,)*
                    $($(#[$b_doc])* $b_mod = $b_var,)*
                    $($(#[$c_doc])* $c_mod = $c_var,)*
                    $($(#[$k_doc])* $k_mod = $k_var,)*
                }
            };
        }
    };
}

ops! { $
    unary {
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
        Pow = pow,
        /// The larger of two elements, with broadcasting; NaN if either is NaN.
        Maximum = maximum,
        /// The smaller of two elements, with broadcasting; NaN if either is NaN.
        Minimum = minimum,
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
        Select = select,
        /// The elements converted to another dtype.
        Cast = cast,
        /// The transpose of `cast`.
        CastT = cast_t,
        /// A number of rank 0 with the dtype of another tensor.
        Scalar = scalar,
        /// A tensor filled with one number, with the dtype and shape of another tensor.
        FullLike = full_like,
        /// A tensor repeated along additional axes, or axes of length 1, to the shape of another.
        BroadcastLike = broadcast_like,
        /// The transpose of `broadcast_like`: the sum over the repeated axes.
        Unbroadcast = unbroadcast,
        /// The sum over axes. Integers wrap.
        Sum = sum,
        /// The transpose of `sum`: a tensor repeated along axes.
        SumT = sum_t,
        /// The mean over axes. Takes floats. The mean of no elements is NaN.
        Mean = mean,
        /// The transpose of `mean`: a tensor repeated along axes and divided by the count.
        MeanT = mean_t,
        /// The matrix product of the last two axes, with broadcasting of the others.
        Matmul = matmul,
        /// The transpose of `matmul` in its first operand.
        MatmulLhsT = matmul_lhs_t,
        /// The transpose of `matmul` in its second operand.
        MatmulRhsT = matmul_rhs_t,
        /// Tensors concatenated along an axis. Their other axes have equal lengths.
        Concat = concat,
        /// The transpose of `concat`: the parts of a tensor at the positions of the operands.
        ConcatT = concat_t,
        /// Tensors of one shape stacked along an additional axis.
        Stack = stack,
        /// Consecutive parts of a tensor along an axis.
        Split = split,
        /// The slices of a tensor at each index of an axis, without that axis.
        Unbind = unbind,
        /// The tensor with its axes in reverse order.
        Transpose = transpose,
        /// The tensor with its axes in a given order.
        Permute = permute,
        /// The transpose of `permute`: the tensor with its axes in their original order.
        PermuteT = permute_t,
        /// The tensor with two axes swapped.
        SwapAxes = swap_axes,
        /// The tensor with one axis moved to another position.
        Moveaxis = moveaxis,
        /// The elements in row-major order, in another shape.
        Reshape = reshape,
        /// The transpose of `reshape`: the elements in their original shape.
        ReshapeT = reshape_t,
        /// The tensor without given axes of length 1.
        Squeeze = squeeze,
        /// The tensor with additional axes of length 1.
        Unsqueeze = unsqueeze,
        /// A range of indices of each axis.
        Slice = slice,
        /// The transpose of `slice`: a tensor placed among zeros.
        SliceT = slice_t,
        /// A tensor repeated along additional axes, or axes of length 1, to a given shape.
        BroadcastTo = broadcast_to,
        /// A tensor filled with one number.
        Full = full,
        /// The numbers `0, 1, 2, ...` as a tensor of rank 1.
        Iota = iota,
        /// The index of the largest element along an axis, as `i64`; the first of equal ones.
        Argmax = argmax,
        /// The index of the smallest element along an axis, as `i64`; the first of equal ones.
        Argmin = argmin,
        /// A row for each label: 1 at the label, 0 elsewhere. A label out of range is an error.
        OneHot = one_hot,
        /// The largest element over axes; NaN if there is one.
        Max = max,
        /// The smallest element over axes; NaN if there is one.
        Min = min,
        /// `exp(x) / sum(exp(x))` along an axis, without overflow. Takes floats.
        Softmax = softmax,
        /// The Jacobian of `softmax`, applied to a tensor.
        SoftmaxT = softmax_t,
        /// `x - logsumexp(x)` along an axis: the logarithm of `softmax`. Takes floats.
        LogSoftmax = log_softmax,
        /// The Jacobian of `log_softmax`, applied to a tensor.
        LogSoftmaxJvp = log_softmax_jvp,
        /// The transpose of `log_softmax_jvp`.
        LogSoftmaxVjp = log_softmax_vjp,
        /// `log(sum(exp(x)))` over axes, without overflow. Takes floats.
        Logsumexp = logsumexp,
        /// The mean over rows of `logsumexp(x) - x[label]`. A label out of range is an error.
        CrossEntropy = cross_entropy,
        /// The softmax of each row, minus 1 at its label: the gradient of the cross entropy.
        SoftmaxLessHot = softmax_less_hot,
        /// `(x - mean) / sqrt(var + eps)` over axes, with the biased variance. Takes floats.
        Normalize = normalize,
        /// The Jacobian of `normalize`, applied to a tensor.
        NormalizeT = normalize_t,
        /// `1 / sqrt(var + eps)` over axes, with the biased variance.
        InvStd = inv_std,
        /// `normalize(x) w + b` over the last axis, with a weight and a bias. Takes floats.
        LayerNorm = layer_norm,
        /// The Jacobian of `layer_norm` or `rms_norm`, applied to tangents.
        NormJvp = norm_jvp,
        /// The transpose of `norm_jvp`.
        NormVjp = norm_vjp,
        /// `softmax(q k^T / sqrt(d)) v`: for each query, a weighted mean of the values.
        Attention = attention,
        /// `logsumexp(q k^T / sqrt(d))` over the keys, for each query.
        AttentionLse = attention_lse,
        /// The Jacobian of `attention`, applied to tangents.
        AttentionJvp = attention_jvp,
        /// The transpose of `attention_jvp`.
        AttentionVjp = attention_vjp,
        /// The lower triangle of each matrix: zeros above the diagonal.
        Tril = tril,
        /// `x / sqrt(mean(x^2) + eps) w` over the last axis, with a weight. Takes floats.
        RmsNorm = rms_norm,
        /// A key derived from a key and a number.
        FoldIn = fold_in,
        /// Random integers from 0 to 2^32 - 1, as `i64`.
        RandomBits = random_bits,
        /// Random floats, uniform in `[0, 1)`.
        RandomUniform = random_uniform,
        /// Random floats of the standard normal distribution.
        RandomNormal = random_normal,
        /// Random bools that are true with a given probability.
        RandomBernoulli = random_bernoulli,
        /// The numbers `0, 1, 2, ...` in a random order, as `i64`.
        RandomPermutation = random_permutation,
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

impl Op {
    /// Returns the op with this name in the text form.
    pub fn from_name(name: &str) -> Option<Op> {
        Op::ALL
            .iter()
            .chain(Op::CALLS)
            .copied()
            .find(|op| op.def().name() == name)
    }

    /// Returns the dtype of an elementwise op on `n` operands of one dtype and known shape.
    ///
    /// The shape of the result is then that of the operands. Returns `None` if the op is not
    /// elementwise or does not take such operands; [`Op::infer`] then returns the error.
    pub fn elementwise(self, n: usize, dtype: DType) -> Option<DType> {
        /// The number of operands and the result dtypes of each op, filled in on first use.
        static TABLE: [OnceLock<Row>; Op::ALL.len()] = [const { OnceLock::new() }; Op::ALL.len()];
        type Row = (usize, [Option<DType>; DType::ALL.len()]);
        let row = || {
            let n = match self.def().eval() {
                Eval::Unary(_) => 1,
                Eval::Binary(_) | Eval::Compare(_) => 2,
                Eval::Kernel(_) | Eval::Call => return (0, Default::default()),
            };
            let dtypes = DType::ALL.map(|dtype| {
                let aval = Aval::new(dtype, &[1]);
                let outs = self.infer(&[], &[&aval; 2][..n], 1).ok()?;
                outs[0].dtype
            });
            (n, dtypes)
        };
        let (takes, dtypes) = TABLE.get(self as usize)?.get_or_init(row);
        (*takes == n && n > 0).then(|| dtypes[dtype as usize])?
    }

    /// Returns the name that users call the op by: its first method, or the method of a key.
    pub fn called(self) -> &'static str {
        let method = self.def().methods().first().map(|method| method.name);
        let name = self.def().name();
        method.unwrap_or(name.strip_prefix("random_").unwrap_or(name))
    }

    /// Returns the name of the method with these static arguments and `n_data` data operands.
    fn called_with(self, statics: &[Static], n_data: usize) -> &'static str {
        let calls = |method: &Method| {
            let mut statics = statics.iter();
            let mut data = 0;
            let mut fits = |param: &Param| match param {
                Param::Static => statics.next().is_some(),
                Param::Switch(on) => statics.next() == Some(&Static::Bool(*on)),
                Param::Number(n) => statics.next() == Some(&Static::Int(*n)),
                Param::All => statics.next() == Some(&Static::All),
                Param::Data => {
                    data += 1;
                    true
                }
                Param::Like | Param::List | Param::Count => true,
            };
            let lists = method.params.contains(&Param::List);
            method.params.iter().all(&mut fits) && (lists || data == n_data)
        };
        let methods = self.def().methods();
        let method = methods.into_iter().find(calls);
        method.map_or_else(|| self.called(), |method| method.name)
    }

    /// Returns the avals of the results, by the shape rule and the dtype rule.
    ///
    /// The macro and the runtime both infer avals through this function only.
    ///
    /// # Errors
    ///
    /// If the number of operands or static arguments is wrong, or a rule refuses them.
    pub fn infer(
        self,
        statics: &[Static],
        args: &[&Aval],
        n_outs: usize,
    ) -> Result<Vec<Aval>, OpError> {
        let def = self.def();
        let n_data = def.operands().n_data(args.len());
        let check = || {
            if !def.operands().fits(args.len()) {
                let lists = [Operands::Many, Operands::ManyLike].contains(&def.operands());
                return Err(Fault::Arity {
                    found: args.len(),
                    // A method that takes a list has no like operands, so do not mention them.
                    expected: match lists && args.is_empty() {
                        true => Operands::Many.to_string(),
                        false => def.operands().to_string(),
                    },
                });
            }
            if statics.len() != def.statics().len() {
                return Err(Fault::Arity {
                    found: statics.len(),
                    expected: format!("{} static arguments", def.statics().len()),
                });
            }
            let dtype = def.dtype(statics, args)?;
            let shapes = def.shape(statics, args, n_outs)?;
            for shape in &shapes {
                shape::check_size(shape)?;
            }
            fits_some_rank(def, statics, args, n_outs)?;
            Ok(shapes
                .into_iter()
                .map(|shape| Aval { dtype, shape })
                .collect())
        };
        check().map_err(|fault| OpError {
            op: self,
            called: self.called_with(statics, n_data),
            args: args[..n_data.min(args.len())]
                .iter()
                .map(|a| (*a).clone())
                .collect(),
            fault,
        })
    }
}

/// Returns an error if static arguments are wrong for every rank of an operand of unknown rank.
///
/// Only the first such operand is considered. The error is one that the shape rule returns for some
/// rank.
fn fits_some_rank(
    def: &dyn OpDef,
    statics: &[Static],
    args: &[&Aval],
    n_outs: usize,
) -> Result<(), Fault> {
    let unknown = args.iter().position(|arg| arg.shape.dims().is_none());
    let Some(unknown) = unknown.filter(|_| statics.iter().any(|s| !s.is_host())) else {
        return Ok(());
    };
    let mut fault = None;
    for rank in 0..=shape::MAX_RANK {
        let mut known = args[unknown].clone();
        known.shape = vec![Dim::Unknown; rank].into();
        let mut args = args.to_vec();
        args[unknown] = &known;
        let shapes = def.shape(statics, &args, n_outs);
        match shapes.and_then(|shapes| shapes.iter().try_for_each(shape::check_size)) {
            Ok(()) => return Ok(()),
            // Prefer errors that say more than that the rank is wrong.
            Err(Fault::Rank { .. } | Fault::TooManyAxes { .. }) if fault.is_some() => {}
            Err(found) => fault = Some(found),
        }
    }
    fault.map_or(Ok(()), Err)
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.def().name())
    }
}
