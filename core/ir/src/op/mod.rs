//! The op table: one file per op, each with the rules of its op in `OP`. To add an op, write its file and add its
//! line to `ops!`.
//!
//! An op has *data* operands, whose values it reads, then *like* operands, of which it reads dtype and shape
//! only. A `Like` operand has no tangent and keeps no buffer alive.
//!
//! A *linear* op is one that a `jvp` rule may apply to tangents; it has a `transpose`. One law makes every
//! linear program transposable where no shape is known: **an operand on the linear path is never broadcast
//! implicitly**. It has the shape of the result, or the op carries the shapes it needs as `Like` operands that
//! are *primal* values (tangents do not exist in the transposed program). `Builder::broadcast` is the op that
//! brings a tangent to the shape of a result.
//!
//! Rules are of [`OpDef`]. The classes [`Unary`], [`Binary`], [`Compare`], [`Linear`] and [`Nonlinear`] implement it
//! for most ops, which are values of their class.

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

        /// What the elementwise ops compute of one element: for each op a module, in it a function for each dtype.
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

        /// The kernels that the run time supplies: it matches on this exhaustively.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kernel {
            $($(#[$k_doc])* $k_var,)*
        }

        impl Op {
            /// Every primitive op. Calls of traced functions are not among them.
            pub const ALL: &[Op] = &[
                $(Op::$u_var,)* $(Op::$b_var,)* $(Op::$c_var,)* $(Op::$k_var,)*
            ];
            /// The ops that stand for calls of other traced functions.
            pub const CALLS: &[Op] = &[$(Op::$f_var,)*];

            /// The rules of this op.
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
        /// Calls `$callback!` with `#[doc] name = Variant,` for each binary elementwise op, comparisons included.
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
        /// The element itself: a distinct value that can be differentiated by.
        Identity = identity,
        /// The element itself, taken for a constant by derivatives.
        StopGradient = stop_gradient,
        /// The negative of each element.
        Neg = neg,
        /// The absolute value of each element.
        Abs = abs,
        /// -1, 0 or 1: the sign of each element.
        Sign = sign,
        /// The exponential of each element.
        Exp = exp,
        /// The natural logarithm of each element.
        Log = log,
        /// `log(1 + x)` of each element, exact where `x` is small.
        Log1p = log1p,
        /// `exp(x) - 1` of each element, exact where `x` is small.
        Expm1 = expm1,
        /// The square root of each element.
        Sqrt = sqrt,
        /// The reciprocal of the square root of each element.
        Rsqrt = rsqrt,
        /// The sine of each element.
        Sin = sin,
        /// The cosine of each element.
        Cos = cos,
        /// The tangent of each element.
        Tan = tan,
        /// The hyperbolic tangent of each element.
        Tanh = tanh,
        /// `1 / (1 + exp(-x))` of each element.
        Sigmoid = sigmoid,
        /// Each element where it is positive, 0 elsewhere.
        Relu = relu,
        /// Each element times the probability that a standard normal variable is below it.
        Gelu = gelu,
        /// An approximation of `gelu` by the hyperbolic tangent.
        GeluTanh = gelu_tanh,
        /// The error function of each element.
        Erf = erf,
        /// `1 - erf(x)` of each element, exact where that is small.
        Erfc = erfc,
        /// `log(1 + exp(x))` of each element.
        Softplus = softplus,
        /// The square of each element.
        Square = square,
        /// `1 / x` of each element.
        Reciprocal = reciprocal,
    }
    binary {
        /// The sum of two tensors, element by element.
        Add = add,
        /// The difference of two tensors, element by element.
        Sub = sub,
        /// The product of two tensors, element by element.
        Mul = mul,
        /// The quotient of two tensors, element by element.
        Div = div,
        /// The first tensor to the power of the second, element by element.
        Pow = pow,
        /// The larger of two tensors, element by element.
        Maximum = maximum,
        /// The smaller of two tensors, element by element.
        Minimum = minimum,
    }
    compare {
        /// Where two tensors are equal.
        Eq = eq,
        /// Where two tensors differ.
        Ne = ne,
        /// Where the first tensor is less than the second.
        Lt = lt,
        /// Where the first tensor is at most the second.
        Le = le,
        /// Where the first tensor is greater than the second.
        Gt = gt,
        /// Where the first tensor is at least the second.
        Ge = ge,
    }
    kernel {
        /// Elements of the second operand where the first is true, of the third elsewhere.
        Select = select,
        /// The elements in another dtype.
        Cast = cast,
        /// The transpose of `cast`.
        CastT = cast_t,
        /// A number of the dtype of another tensor.
        Scalar = scalar,
        /// A tensor of one number, with dtype and shape of another tensor.
        FullLike = full_like,
        /// A tensor repeated along new or unit axes to the shape of another.
        BroadcastLike = broadcast_like,
        /// The transpose of `broadcast_like`: the sum over the repeated axes.
        Unbroadcast = unbroadcast,
        /// The sum over axes.
        Sum = sum,
        /// The transpose of `sum`: a tensor repeated along axes.
        SumT = sum_t,
        /// The mean over axes.
        Mean = mean,
        /// The transpose of `mean`: a tensor repeated along axes, over the number of repetitions.
        MeanT = mean_t,
        /// The matrix product.
        Matmul = matmul,
        /// The transpose of `matmul` in its first operand.
        MatmulLhsT = matmul_lhs_t,
        /// The transpose of `matmul` in its second operand.
        MatmulRhsT = matmul_rhs_t,
        /// Tensors one after the other along an axis.
        Concat = concat,
        /// The transpose of `concat` in one operand.
        ConcatPart = concat_part,
        /// Tensors of one shape along an additional axis.
        Stack = stack,
        /// Parts of a tensor along an axis.
        Split = split,
        /// One result for each index of an axis.
        Unbind = unbind,
        /// The axes in reverse order.
        Transpose = transpose,
        /// The axes in another order.
        Permute = permute,
        /// The transpose of `permute`: the axes in the order before.
        PermuteT = permute_t,
        /// Two axes in each other's place.
        SwapAxes = swap_axes,
        /// One axis at another place.
        Moveaxis = moveaxis,
        /// The elements in another shape.
        Reshape = reshape,
        /// The transpose of `reshape`: the elements in the shape before.
        ReshapeT = reshape_t,
        /// Without axes of length 1.
        Squeeze = squeeze,
        /// With additional axes of length 1.
        Unsqueeze = unsqueeze,
        /// A range of each axis.
        Slice = slice,
        /// The transpose of `slice`: a tensor at its place among zeros.
        SliceT = slice_t,
        /// A tensor repeated along new or unit axes to a shape.
        BroadcastTo = broadcast_to,
        /// A tensor of one number.
        Full = full,
        /// The numbers 0, 1, 2, ...
        Iota = iota,
        /// The index of the first largest element along an axis.
        Argmax = argmax,
        /// The index of the first smallest element along an axis.
        Argmin = argmin,
        /// A row for each label: 1 at the label, 0 elsewhere.
        OneHot = one_hot,
        /// The largest element over axes.
        Max = max,
        /// The smallest element over axes.
        Min = min,
        /// Exponentials that add up to 1 along an axis.
        Softmax = softmax,
        /// The Jacobian of `softmax`, applied to a tensor.
        SoftmaxT = softmax_t,
        /// The logarithm of `softmax`.
        LogSoftmax = log_softmax,
        /// The Jacobian of `log_softmax`, applied to a tensor.
        LogSoftmaxJvp = log_softmax_jvp,
        /// The transpose of `log_softmax_jvp`.
        LogSoftmaxVjp = log_softmax_vjp,
        /// The logarithm of the sum of exponentials over axes.
        Logsumexp = logsumexp,
        /// The mean cross entropy of rows of logits at their labels.
        CrossEntropy = cross_entropy,
        /// The softmax of rows, less 1 at their labels.
        SoftmaxLessHot = softmax_less_hot,
        /// The elements less their mean, over their standard deviation.
        Normalize = normalize,
        /// The Jacobian of `normalize`, applied to a tensor.
        NormalizeT = normalize_t,
        /// The reciprocal of the standard deviation over axes.
        InvStd = inv_std,
        /// `normalize` over the last axis, then scaled and shifted.
        LayerNorm = layer_norm,
        /// The Jacobian of `layer_norm` or `rms_norm`, applied to tangents.
        NormJvp = norm_jvp,
        /// The transpose of `norm_jvp`.
        NormVjp = norm_vjp,
        /// Values mixed for each query, by the softmax of its products with keys.
        Attention = attention,
        /// The logarithm of the sum of exponentials of the products of a query with keys.
        AttentionLse = attention_lse,
        /// The Jacobian of `attention`, applied to tangents.
        AttentionJvp = attention_jvp,
        /// The transpose of `attention_jvp`.
        AttentionVjp = attention_vjp,
        /// The elements with zeros above the diagonal.
        Tril = tril,
        /// The elements over the root of their mean square along the last axis, then scaled.
        RmsNorm = rms_norm,
        /// The key that a number makes of a key.
        FoldIn = fold_in,
        /// Random numbers from 0 to 2^32 - 1.
        RandomBits = random_bits,
        /// Random numbers from 0 to below 1.
        RandomUniform = random_uniform,
        /// Random numbers of the normal distribution.
        RandomNormal = random_normal,
        /// Coin flips.
        RandomBernoulli = random_bernoulli,
        /// The numbers 0, 1, 2, ... in a random order.
        RandomPermutation = random_permutation,
    }
    calls {
        /// A call of a traced function.
        Call = CALL,
        /// A call that also returns the residuals of the callee.
        CallFwd = FWD,
        /// A call of the forward-mode companion.
        CallJvp = JVP,
        /// The linear part of a call: tangents from residuals. It exists to be transposed.
        CallLin = LIN,
        /// The transpose of `call_lin`: cotangents from residuals.
        CallPull = PULL,
    }
}

impl Op {
    /// The op of a name in the text form.
    pub fn from_name(name: &str) -> Option<Op> {
        Op::ALL
            .iter()
            .chain(Op::CALLS)
            .copied()
            .find(|op| op.def().name() == name)
    }

    /// The dtype of the result of an elementwise op on `n` operands of one dtype and one known shape, which is then the shape
    /// of the result, too. Nothing if it is no such op or takes no such operands; then the rules say what is wrong.
    pub fn elementwise(self, n: usize, dtype: DType) -> Option<DType> {
        /// For each op, the number of operands and the dtype for each of theirs: what the rules say of some shape. An op is
        /// asked when it is first met.
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

    /// The name that users call the op by: of its first method, or of the method of a key.
    pub fn called(self) -> &'static str {
        let method = self.def().methods().first().map(|method| method.name);
        let name = self.def().name();
        method.unwrap_or(name.strip_prefix("random_").unwrap_or(name))
    }

    /// The name that users call the op by with these static arguments and so many data operands.
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

    /// The avals of the results: the shape rule and the dtype rule, after a check of the arity.
    ///
    /// This is the one entry of the macro and of the run time to these rules.
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
                    // Whose list is empty has not heard of likes.
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

/// Refuses static arguments that are wrong whatever the rank of the first operand with an unknown one is. The fault is one
/// that the rule finds at some rank.
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
            // Other faults say more than that the rank is wrong.
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
