//! Lowering of ops to tasks that run on the CPU.
//!
//! [`lower`] is the only place that maps an op to its kernel; elementwise ops are compiled into
//! groups by the planner. A kernel relies on the checks of the op's shape and dtype rules.
//! Everything that depends on shapes is resolved when a plan is made.

mod attention;
mod axes;
mod matmul;
mod movement;
mod rows;
mod statics;
#[cfg(test)]
mod tests;

pub(crate) use axes::fused_sum;

use super::{TaskBuilder, View};
use crate::Aval;
use gradloom_ir::op::Eval;
use gradloom_ir::{Kernel, Op, Static, StaticKind};
use gradloom_kernels::elementwise::quotient;
use gradloom_kernels::memory::numel;
use gradloom_kernels::random::{self, Distribution};
use gradloom_kernels::reduce::Fold;
use gradloom_kernels::rows as kernels;
use gradloom_kernels::task::Prepared;
use matmul::Product;
use statics::{float, int};

/// The static arguments of derivatives of norms.
const NORM: [StaticKind; 3] = [
    StaticKind::KnownFlag,
    StaticKind::Epsilon,
    StaticKind::Active,
];

/// Lowers `op` to tasks and returns its results, one for each of `outs`.
///
/// `args` are the data operands. Elementwise ops belong to groups and are not lowered here, except
/// integer division and powers, which may fail. A result may be a view of an operand.
pub(crate) fn lower(
    b: &mut TaskBuilder,
    op: Op,
    statics: &[Static],
    args: &[View],
    likes: &[Aval],
    outs: &[Aval],
) -> Vec<View> {
    let value = |kind| statics::value(op, statics, kind);
    let axis = |rank: usize| statics::axis(value(StaticKind::Axis), rank);
    let kernel = match op.def().eval() {
        Eval::Kernel(Kernel::Split | Kernel::ConcatT) => {
            let axis = axis(args[0].rank());
            let lens = outs.iter().map(|out| out.shape()[axis]);
            return movement::split(&args[0], axis, lens);
        }
        Eval::Kernel(Kernel::Unbind) => {
            return movement::unbind(&args[0], axis(args[0].rank()));
        }
        Eval::Kernel(Kernel::AttentionVjp) => {
            let statics = [StaticKind::KnownFlag, StaticKind::Active].map(value);
            return attention::attention_vjp(b, args, statics, outs);
        }
        Eval::Kernel(Kernel::NormVjp) => {
            let statics = NORM.map(value);
            return rows::norm_vjp(b, args, statics, outs);
        }
        Eval::Kernel(kernel) => kernel,
        Eval::Unary(_) if op.is_view() => return vec![args[0].clone()],
        Eval::Binary(_) => return vec![integer_quotient(b, op, args, &outs[0])],
        Eval::Unary(_) | Eval::Compare(_) => {
            unreachable!("elementwise ops are lowered as members of groups")
        }
        Eval::Call => unreachable!("calls are inlined or recorded, never planned"),
    };
    let out = &outs[0];
    let (dtype, shape) = (out.dtype(), out.shape());
    let x = || &args[0];
    let axes = |of: &View| statics::axes(value(StaticKind::Axes), of.rank());
    let eps = || float(value(StaticKind::Epsilon));
    let starts = || value(StaticKind::Starts);
    let steps = || value(StaticKind::Steps);
    let two = || [&args[0], &args[1]];
    let place = match kernel {
        Kernel::Select | Kernel::Cast | Kernel::CastT => {
            unreachable!("elementwise ops are lowered as members of groups")
        }
        Kernel::Scalar | Kernel::FullLike | Kernel::Full => {
            b.constant(value(StaticKind::Number), dtype, shape)
        }
        Kernel::Iota => b.kernel(&[], out, gradloom_kernels::movement::iota(dtype)),
        Kernel::BroadcastLike | Kernel::BroadcastTo => x().broadcast_to(shape),
        Kernel::Unbroadcast => {
            let axes = axes::repeated(x().shape(), shape);
            axes::sum(b, x(), &axes, out)
        }
        Kernel::Sum => axes::sum(b, x(), &axes(x()), out),
        Kernel::SumT => axes::sum_t(b, x(), value(StaticKind::Axes), shape),
        Kernel::Mean => axes::mean(b, x(), &axes(x()), out),
        Kernel::MeanT => axes::mean_t(b, x(), value(StaticKind::Axes), shape),
        Kernel::Max => axes::fold(b, x(), &axes(x()), out, Fold::Max),
        Kernel::Min => axes::fold(b, x(), &axes(x()), out, Fold::Min),
        Kernel::Argmax => axes::arg_fold(b, x(), axis(x().rank()), out, Fold::Max),
        Kernel::Argmin => axes::arg_fold(b, x(), axis(x().rank()), out, Fold::Min),
        Kernel::Matmul => product(b, Product::Plain, args, likes, out),
        Kernel::MatmulLhsT => product(b, Product::Left, args, likes, out),
        Kernel::MatmulRhsT => product(b, Product::Right, args, likes, out),
        Kernel::Softmax => rows::map_rows(b, [x()], &[axis(x().rank())], kernels::softmax),
        Kernel::SoftmaxT => rows::map_rows(b, two(), &[axis(x().rank())], kernels::softmax_t),
        Kernel::LogSoftmaxJvp => {
            rows::map_rows(b, two(), &[axis(x().rank())], kernels::log_softmax_jvp)
        }
        Kernel::LogSoftmaxVjp => {
            rows::map_rows(b, two(), &[axis(x().rank())], kernels::log_softmax_vjp)
        }
        Kernel::LogSoftmax => rows::map_rows(b, [x()], &[axis(x().rank())], kernels::log_softmax),
        Kernel::Logsumexp => rows::fold_rows(b, x(), &axes(x()), out, kernels::logsumexp),
        Kernel::CrossEntropy => rows::cross_entropy(b, args),
        Kernel::CrossEntropyGrad => rows::cross_entropy_grad(b, args),
        Kernel::Normalize => {
            rows::map_rows(b, [x()], &axes(x()), |of| kernels::normalize(of, eps()))
        }
        Kernel::NormalizeT => rows::map_rows(
            b,
            [x(), &args[1], &args[2]],
            &axes(x()),
            kernels::normalize_t,
        ),
        Kernel::InvStd => {
            rows::fold_rows(b, x(), &axes(x()), out, |of| kernels::inv_std(of, eps()))
        }
        Kernel::NormJvp => {
            let statics = NORM.map(value);
            rows::norm_jvp(b, args, statics, out)
        }
        Kernel::LayerNorm => rows::affine(b, args, |of| kernels::layer_norm(of, eps())),
        Kernel::Attention => attention::attention(b, args, value(StaticKind::KnownFlag), out),
        Kernel::AttentionLse => {
            attention::attention_lse(b, args, value(StaticKind::KnownFlag), out)
        }
        Kernel::AttentionJvp => {
            let statics = [StaticKind::KnownFlag, StaticKind::Active].map(value);
            attention::attention_jvp(b, args, statics, out)
        }
        Kernel::Tril => movement::tril(b, x()),
        Kernel::RmsNorm => rows::affine(b, args, |of| kernels::rms_norm(of, eps())),
        Kernel::FoldIn => of_key(
            b,
            x(),
            out,
            random::fold_in(int(value(StaticKind::Count)) as u64),
        ),
        Kernel::RandomBits => of_key(b, x(), out, Distribution::Bits.kernel()),
        Kernel::RandomUniform => of_key(b, x(), out, Distribution::Uniform(dtype).kernel()),
        Kernel::RandomNormal => of_key(b, x(), out, Distribution::Normal(dtype).kernel()),
        Kernel::RandomBernoulli => {
            let p = float(value(StaticKind::Probability));
            of_key(b, x(), out, Distribution::Bernoulli(p).kernel())
        }
        Kernel::RandomPermutation => of_key(b, x(), out, random::permutation()),
        Kernel::OneHot => rows::one_hot(b, x(), out),
        Kernel::Transpose => movement::transpose(x()),
        Kernel::Permute => movement::permute(x(), value(StaticKind::Permutation)),
        Kernel::PermuteT => movement::permute_t(x(), value(StaticKind::Permutation)),
        Kernel::SwapAxes => movement::swap_axes(x(), &statics[0], &statics[1]),
        Kernel::Moveaxis => movement::moveaxis(x(), &statics[0], &statics[1]),
        Kernel::Reshape | Kernel::ReshapeT | Kernel::Squeeze | Kernel::Unsqueeze => {
            b.reshape(x(), shape)
        }
        Kernel::Slice => movement::slice(x(), starts(), steps(), shape),
        Kernel::SliceT => movement::slice_t(b, x(), starts(), steps(), out),
        Kernel::Concat => movement::concat(b, args, axis(shape.len()), out),
        Kernel::Stack => movement::stack(b, args, axis(shape.len()), out),
        Kernel::Split
        | Kernel::ConcatT
        | Kernel::Unbind
        | Kernel::AttentionVjp
        | Kernel::NormVjp => {
            unreachable!("ops with several results return above")
        }
    };
    vec![place]
}

fn product(
    b: &mut TaskBuilder,
    product: Product,
    args: &[View],
    likes: &[Aval],
    out: &Aval,
) -> View {
    let ranks = [likes[0].shape().len(), likes[1].shape().len()];
    matmul::product(b, product, [&args[0], &args[1]], ranks, out)
}

/// Adds a kernel on the words of a key.
fn of_key(b: &mut TaskBuilder, key: &View, out: &Aval, kernel: Prepared) -> View {
    let key = b.contiguous(key);
    b.kernel(&[&key], out, kernel)
}

/// Lowers `x / y` or `x^y` of integers, which fails if it divides by 0.
///
/// It is a task of its own, because a group cannot fail. With a constant divisor, as in `n / 2`, it
/// cannot fail and is a member of a group.
fn integer_quotient(b: &mut TaskBuilder, op: Op, args: &[View], out: &Aval) -> View {
    let [x, y] = [&args[0], &args[1]].map(|x| match numel(x.shape()) {
        1 => b.contiguous(x),
        _ => b.contiguous(&x.broadcast_to(out.shape())),
    });
    b.kernel(&[&x, &y], out, quotient::quotient(op, out.dtype()))
}
