//! CPU kernels: lowering of ops to tasks, and the loops that compute them.
//!
//! - [`lower`] is the only place that maps an op to its kernel; elementwise ops are compiled into
//!   groups ([`fused`]).
//! - A kernel relies on the checks of the op's shape and dtype rules. An error that depends on
//!   values is a [`KernelFault`].
//! - The result depends on the shapes and values of the operands, not on their strides: a strided
//!   view gives the same bits as its contiguous copy.
//!
//! Everything that depends on shapes is resolved when a plan is made. A prepared kernel is a
//! closure on slices.

mod attention;
mod axes;
mod by_row;
mod cast;
mod chain;
mod compiled;
mod copy;
mod cut;
mod data;
mod elementwise;
mod epilogue;
#[cfg(target_os = "linux")]
mod fork;
mod frequent;
mod fused;
mod gather;
mod gemm;
mod instr;
mod lanes;
mod level;
mod leveled;
mod matmul;
mod memory;
mod movement;
mod norms;
mod number;
mod pages;
mod pieces;
mod quotient;
pub(crate) mod random;
mod reduce;
mod room;
mod rows;
mod rows_t;
mod span;
#[cfg(all(test, not(debug_assertions)))]
mod speed;
#[cfg(test)]
mod tests;
pub(crate) mod threads;
mod vector;

pub(crate) use axes::{fused_sum, is_sum, join};
pub(crate) use chain::{At, Bound, chain};
pub(crate) use compiled::with_patterns;
pub use compiled::{Fused, FusedTable, Loop};
pub(crate) use cut::{ByRow, Link, gcd};
pub(crate) use data::{Data, DataMut, bools_of, on_element};
pub(crate) use elementwise::{Run, Step, compiled, group, in_dtype};
pub(crate) use epilogue::follow;
pub(crate) use fused::Group;
pub(crate) use gemm::{Batch, product_of_slices};
pub(crate) use memory::{ALIGN, Base, Leaf, Needs, Prepared, Region, Task, run};
pub(crate) use pages::hold_pages;
pub(crate) use pieces::Sum;
pub(crate) use span::{Span, Zero};
pub(crate) use threads::forget_workers;

use crate::Aval;
use crate::dtype::Element;
use crate::layout::{Layout, numel};
use crate::plan::{Build, Place};
use copy::{Copy, Scatter};
use gradloom_ir::op::Eval;
use gradloom_ir::{DType, Kernel, Op, Static};
use matmul::Product;
use number::Number;
use std::any::Any;

/// Run-time error of a kernel, caused by the values of its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KernelFault {
    /// A label that is not a class index.
    Label {
        label: i64,
        classes: usize,
        /// Position among the labels, in row-major order.
        row: usize,
    },
    /// Integer division by 0.
    DivisionByZero {
        /// Index of the element in the result, in row-major order.
        element: usize,
    },
    /// A result cannot be allocated.
    OutOfMemory { bytes: usize },
}

const UNTAKEN: &str = "the dtype rule refuses this dtype";

/// Calls a kernel that is generic over a numeric element type with the type of `$dtype`.
macro_rules! on_number {
    ($dtype:expr, $($f:ident)::+($($arg:expr),*)) => {
        match $dtype {
            DType::F32 => $($f)::+::<f32>($($arg),*),
            DType::F64 => $($f)::+::<f64>($($arg),*),
            DType::I32 => $($f)::+::<i32>($($arg),*),
            DType::I64 => $($f)::+::<i64>($($arg),*),
            DType::Bool => unreachable!("{}", $crate::kernel::UNTAKEN),
        }
    };
}

use on_number;

/// Calls a kernel that is generic over a float type with the type of `$dtype`.
macro_rules! on_float {
    ($dtype:expr, $($f:ident)::+($($arg:expr),*)) => {
        match $dtype {
            DType::F32 => $($f)::+::<f32>($($arg),*),
            DType::F64 => $($f)::+::<f64>($($arg),*),
            _ => unreachable!("{}", $crate::kernel::UNTAKEN),
        }
    };
}

/// Lowers `op` to tasks and returns its results, one for each of `outs`.
///
/// `args` are the data operands. Elementwise ops belong to groups and are not lowered here, except
/// integer division and powers, which may fail. A result may be a view of an operand.
pub(crate) fn lower(
    b: &mut Build,
    op: Op,
    statics: &[Static],
    args: &[Place],
    likes: &[Aval],
    outs: &[Aval],
) -> Vec<Place> {
    let kernel = match op.def().eval() {
        Eval::Kernel(kernel @ (Kernel::Split | Kernel::ConcatT)) => {
            let axis = &statics[usize::from(kernel == Kernel::Split)];
            let axis = movement::axis(axis, args[0].rank());
            let lens = outs.iter().map(|out| out.shape()[axis]);
            return movement::split(&args[0], axis, lens);
        }
        Eval::Kernel(Kernel::Unbind) => {
            let axis = movement::axis(&statics[0], args[0].rank());
            return movement::unbind(&args[0], axis);
        }
        Eval::Kernel(Kernel::AttentionVjp) => {
            let statics = [&statics[0], &statics[1]];
            return on_float!(
                outs[0].dtype(),
                attention::attention_vjp(b, args, statics, outs)
            );
        }
        Eval::Kernel(Kernel::NormVjp) => {
            let statics = [&statics[0], &statics[1], &statics[2]];
            return on_float!(outs[0].dtype(), norms::norm_vjp(b, args, statics, outs));
        }
        Eval::Kernel(kernel) => kernel,
        Eval::Unary(_) if matches!(op, Op::Identity | Op::StopGradient) => {
            return vec![args[0].clone()];
        }
        Eval::Binary(_) => return vec![quotient::quotient(b, op, args, &outs[0])],
        Eval::Unary(_) | Eval::Compare(_) => {
            unreachable!("elementwise ops are lowered as members of groups")
        }
        Eval::Call => unreachable!("calls are inlined or recorded, never planned"),
    };
    let out = &outs[0];
    let (dtype, shape) = (out.dtype(), out.shape());
    let x = || &args[0];
    let axes = |of: &Place| movement::axes(&statics[0], of.rank());
    let axis = |i: usize, of: &Place| movement::axis(&statics[i], of.rank());
    let eps = |i: usize| statics[i].float().expect("the shape rule checks `eps`");
    let place = match kernel {
        Kernel::Select | Kernel::Cast | Kernel::CastT => {
            unreachable!("elementwise ops are lowered as members of groups")
        }
        Kernel::Scalar | Kernel::FullLike => b.constant(&statics[0], dtype, shape),
        Kernel::Full => b.constant(&statics[1], dtype, shape),
        Kernel::Iota => on_number!(dtype, iota(b, out)),
        Kernel::BroadcastLike | Kernel::BroadcastTo => x().broadcast_to(shape),
        Kernel::Unbroadcast => {
            let axes = axes::repeated(x().shape(), shape);
            on_number!(dtype, axes::sum(b, x(), &axes, out))
        }
        Kernel::Sum => on_number!(dtype, axes::sum(b, x(), &axes(x()), out)),
        Kernel::SumT => axes::sum_t(b, x(), &statics[0], shape),
        Kernel::Mean => on_number!(dtype, axes::mean(b, x(), &axes(x()), out)),
        Kernel::MeanT => on_number!(dtype, axes::mean_t(b, x(), &statics[0], shape)),
        Kernel::Max => on_number!(dtype, axes::max(b, x(), &axes(x()), out)),
        Kernel::Min => on_number!(dtype, axes::min(b, x(), &axes(x()), out)),
        Kernel::Argmax => on_number!(x().dtype(), axes::argmax(b, x(), axis(0, x()), out)),
        Kernel::Argmin => on_number!(x().dtype(), axes::argmin(b, x(), axis(0, x()), out)),
        Kernel::Matmul => product(b, Product::Plain, args, likes, out),
        Kernel::MatmulLhsT => product(b, Product::Left, args, likes, out),
        Kernel::MatmulRhsT => product(b, Product::Right, args, likes, out),
        Kernel::Softmax => on_float!(dtype, by_row::softmax(b, x(), axis(0, x()))),
        Kernel::SoftmaxT => on_float!(dtype, by_row::softmax_t(b, args, axis(0, x()))),
        Kernel::LogSoftmaxJvp => on_float!(dtype, by_row::log_softmax_jvp(b, args, axis(0, x()))),
        Kernel::LogSoftmaxVjp => on_float!(dtype, by_row::log_softmax_vjp(b, args, axis(0, x()))),
        Kernel::LogSoftmax => on_float!(dtype, by_row::log_softmax(b, x(), axis(0, x()))),
        Kernel::Logsumexp => on_float!(dtype, by_row::logsumexp(b, x(), &axes(x()), out)),
        Kernel::CrossEntropy => on_float!(dtype, by_row::cross_entropy(b, args)),
        Kernel::SoftmaxLessHot => on_float!(dtype, by_row::softmax_less_hot(b, args)),
        Kernel::Normalize => on_float!(dtype, by_row::normalize(b, x(), &axes(x()), eps(1))),
        Kernel::NormalizeT => on_float!(dtype, by_row::normalize_t(b, args, &axes(x()))),
        Kernel::InvStd => on_float!(dtype, by_row::inv_std(b, x(), &axes(x()), out, eps(1))),
        Kernel::NormJvp => {
            let statics = [&statics[0], &statics[1], &statics[2]];
            on_float!(dtype, norms::norm_jvp(b, args, statics, out))
        }
        Kernel::LayerNorm => on_float!(dtype, by_row::layer_norm(b, args, eps(0))),
        Kernel::Attention => on_float!(dtype, attention::attention(b, args, &statics[0], out)),
        Kernel::AttentionLse => {
            on_float!(dtype, attention::attention_lse(b, args, &statics[0], out))
        }
        Kernel::AttentionJvp => {
            let statics = [&statics[0], &statics[1]];
            on_float!(dtype, attention::attention_jvp(b, args, statics, out))
        }
        Kernel::Tril => on_float!(dtype, tril(b, x())),
        Kernel::RmsNorm => on_float!(dtype, by_row::rms_norm(b, args, eps(0))),
        Kernel::FoldIn => random::fold_in(b, x(), movement::int(&statics[0]) as u64, out),
        Kernel::RandomBits => random::draw(b, x(), out, random::Bits),
        Kernel::RandomUniform => on_float!(dtype, random::uniform(b, x(), out)),
        Kernel::RandomNormal => on_float!(dtype, random::normal(b, x(), out)),
        Kernel::RandomBernoulli => {
            let p = statics[1].float().expect("the shape rule checks `p`");
            random::draw(b, x(), out, random::Flips(p as f32))
        }
        Kernel::RandomPermutation => random::permutation(b, x(), out),
        Kernel::OneHot => by_row::one_hot(b, x(), out),
        Kernel::Transpose => movement::transpose(x()),
        Kernel::Permute => movement::permute(x(), &statics[0]),
        Kernel::PermuteT => movement::permute_t(x(), &statics[0]),
        Kernel::SwapAxes => movement::swap_axes(x(), &statics[0], &statics[1]),
        Kernel::Moveaxis => movement::moveaxis(x(), &statics[0], &statics[1]),
        Kernel::Reshape | Kernel::ReshapeT | Kernel::Squeeze | Kernel::Unsqueeze => {
            b.reshape(x(), shape)
        }
        Kernel::Slice => movement::slice(x(), &statics[0], &statics[2], shape),
        Kernel::SliceT => slice_t(b, x(), &statics[0], &statics[2], out),
        Kernel::Concat => concat(b, args, movement::axis(&statics[0], shape.len()), out),
        Kernel::Stack => {
            let axis = movement::axis(&statics[0], shape.len());
            let mut unit = shape.to_vec();
            unit[axis] = 1;
            let args: Vec<Place> = args.iter().map(|x| b.reshape(x, &unit)).collect();
            concat(b, &args, axis, out)
        }
        Kernel::Split
        | Kernel::ConcatT
        | Kernel::Unbind
        | Kernel::AttentionVjp
        | Kernel::NormVjp => unreachable!("ops with several results return above"),
    };
    vec![place]
}

/// Locks the loop table and the worker list until the returned guards are dropped.
///
/// Pages have a lock of their own: [`hold_pages`].
pub(crate) fn hold_locks() -> [Box<dyn Any>; 2] {
    [
        Box::new(compiled::hold_loops()),
        Box::new(threads::hold_workers()),
    ]
}

/// Returns the op whose result the kernel of `op` can compute as a by-product, on the same
/// operands.
pub(crate) fn along(op: Op) -> Option<Op> {
    (op == Op::CrossEntropy).then_some(Op::SoftmaxLessHot)
}

/// Wraps a function of one operand and one result as a kernel.
fn map<T: Element, U: Element>(f: impl Fn(&[T], &mut [U]) + Send + Sync + 'static) -> Prepared {
    Box::new(move |args, outs| {
        f(T::slice(args[0]), U::slice_mut(&mut outs[0]));
        Ok(())
    })
}

/// Returns a kernel that copies `x` into row-major order.
///
/// If `x` is already contiguous, the operand slice must have exactly its elements.
pub(crate) fn copy(x: &Place) -> Prepared {
    fn of<T: Element>(copy: Option<Copy>) -> Prepared {
        map(move |xs: &[T], out: &mut [T]| match &copy {
            Some(copy) => copy.run(xs, out),
            None => out.copy_from_slice(xs),
        })
    }
    let strided = !x.layout.is_contiguous();
    let copy = strided.then(|| Copy::new(&x.layout));
    on_element!(x.dtype(), of(copy))
}

/// Returns whether reading the layout in row-major order jumps between cache lines.
pub(crate) fn jumps(layout: &Layout) -> bool {
    !layout.is_contiguous() && matches!(Copy::new(layout), Copy::Tiles(_))
}

fn iota<T: Number>(b: &mut Build, out: &Aval) -> Place {
    let write: Prepared = Box::new(|_, outs| {
        for (i, y) in T::slice_mut(&mut outs[0]).iter_mut().enumerate() {
            *y = T::from_static(&Static::Int(i as i64));
        }
        Ok(())
    });
    b.kernel(&[], out, write)
}

fn product(b: &mut Build, product: Product, args: &[Place], likes: &[Aval], out: &Aval) -> Place {
    let ranks = [likes[0].shape().len(), likes[1].shape().len()];
    let args = [&args[0], &args[1]];
    on_number!(out.dtype(), matmul::product(b, product, args, ranks, out))
}

/// Writes `y` to the selected part of a tensor of zeros: the transpose of `slice`.
fn slice_t(b: &mut Build, y: &Place, starts: &Static, steps: &Static, out: &Aval) -> Place {
    fn of<T: Element>(scatter: Scatter) -> Prepared {
        map(move |ys: &[T], out: &mut [T]| {
            out.fill(T::default());
            scatter.run(ys, out);
        })
    }
    let to = movement::part(out.shape(), starts, steps, y.shape());
    let scatter = Scatter::new(&to);
    let y = b.contiguous(y);
    b.kernel(&[&y], out, on_element!(out.dtype(), of(scatter)))
}

fn tril<T: Number>(b: &mut Build, x: &Place) -> Place {
    let x = b.contiguous(x);
    let out = Aval::new(x.dtype(), x.shape());
    let [rows, cols] = [2, 1].map(|from_end| x.shape()[x.rank() - from_end]);
    let kernel = map(move |xs: &[T], ys: &mut [T]| movement::tril(xs, ys, rows, cols));
    b.kernel(&[&x], &out, kernel)
}

fn concat(b: &mut Build, args: &[Place], axis: usize, out: &Aval) -> Place {
    fn of<T: Element>(pieces: Vec<usize>) -> Prepared {
        Box::new(move |args, outs| {
            movement::concat(args, &pieces, T::slice_mut(&mut outs[0]));
            Ok(())
        })
    }
    let args: Vec<Place> = args.iter().map(|x| b.contiguous(x)).collect();
    let pieces = args.iter().map(|x| numel(&x.shape()[axis..])).collect();
    let refs: Vec<&Place> = args.iter().collect();
    b.kernel(&refs, out, on_element!(out.dtype(), of(pieces)))
}
