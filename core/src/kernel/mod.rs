//! What the ops compute, on the CPU.
//!
//! [`run`] is the only place where an op meets its kernel. A kernel may rely on what the op's shape rule and dtype
//! rule have checked; what only the data can tell is a [`KernelFault`]. The result of a kernel depends on the
//! shapes and the values of its operands, never on where they lie: a strided view gives the same bits as its
//! contiguous copy.

mod elementwise;
mod gemm;
mod level;
mod matmul;
mod movement;
mod number;
mod reduce;
mod rows;
mod source;
#[cfg(test)]
mod tests;
#[allow(dead_code)] // kernels use it as they are split
pub(crate) mod threads;

pub(crate) use source::Source;

use crate::Aval;
use crate::buffer::View;
use crate::dtype::Element;
use gradloom_ir::op::Eval;
use gradloom_ir::{DType, Kernel, Op, Static};
use matmul::Product;
use number::Number;

/// What goes wrong only when the values are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KernelFault {
    /// A label that is no class.
    Label {
        label: i64,
        classes: usize,
        /// Where it stands among the labels, in row-major order.
        row: usize,
    },
    /// There is no memory for a result.
    OutOfMemory { bytes: usize },
}

const UNTAKEN: &str = "the dtype rule refuses this dtype";

/// Calls a kernel with the type of a dtype, which is a number.
macro_rules! on_number {
    ($dtype:expr, $($f:ident)::+($($arg:expr),*)) => {
        match $dtype {
            DType::F32 => $($f)::+::<f32>($($arg),*),
            DType::F64 => $($f)::+::<f64>($($arg),*),
            DType::I32 => $($f)::+::<i32>($($arg),*),
            DType::I64 => $($f)::+::<i64>($($arg),*),
            DType::Bool => unreachable!("{UNTAKEN}"),
        }
    };
}

/// Calls a kernel with the type of a dtype, which is a float.
macro_rules! on_float {
    ($dtype:expr, $($f:ident)::+($($arg:expr),*)) => {
        match $dtype {
            DType::F32 => $($f)::+::<f32>($($arg),*),
            DType::F64 => $($f)::+::<f64>($($arg),*),
            _ => unreachable!("{UNTAKEN}"),
        }
    };
}

/// The results of `op`, one for each of `outs`. `args` are its data operands.
///
/// A result may share the buffer of an operand.
pub(crate) fn run(
    op: Op,
    statics: &[Static],
    args: &[&View],
    likes: &[Aval],
    outs: &[Aval],
) -> Result<Vec<View>, KernelFault> {
    let kernel = match op.def().eval() {
        Eval::Unary(_) if matches!(op, Op::Identity | Op::StopGradient) => {
            return Ok(vec![args[0].clone()]);
        }
        Eval::Unary(fns) => return Ok(vec![elementwise::unary(&fns, args[0])?]),
        Eval::Binary(fns) => {
            return Ok(vec![elementwise::binary(
                &fns,
                args[0],
                args[1],
                outs[0].shape(),
            )?]);
        }
        Eval::Compare(fns) => {
            return Ok(vec![elementwise::compare(
                &fns,
                args[0],
                args[1],
                outs[0].shape(),
            )?]);
        }
        Eval::Call => unreachable!("calls are inlined or recorded, never planned"),
        Eval::Kernel(Kernel::Split) => {
            let axis = movement::axis(&statics[1], args[0].rank());
            return Ok(movement::split(
                args[0],
                axis,
                outs.iter().map(|out| out.shape()[axis]),
            ));
        }
        Eval::Kernel(Kernel::Unbind) => {
            return Ok(movement::unbind(
                args[0],
                movement::axis(&statics[0], args[0].rank()),
            ));
        }
        Eval::Kernel(kernel) => kernel,
    };
    let (dtype, shape) = (outs[0].dtype(), outs[0].shape());
    let x = || args[0];
    let axes = |of: &View| movement::axes(&statics[0], of.rank());
    let eps = |i: usize| statics[i].float().expect("the shape rule checks `eps`");
    let view = match kernel {
        Kernel::Select => elementwise::select(args[0], args[1], args[2], shape)?,
        Kernel::Cast | Kernel::CastT => elementwise::cast(x(), dtype)?,
        Kernel::Scalar | Kernel::FullLike => constant(&statics[0], dtype, shape),
        Kernel::Full => constant(&statics[1], dtype, shape),
        Kernel::Iota => on_number!(dtype, movement::iota(shape[0]))?,
        Kernel::BroadcastLike => x().broadcast_to(shape),
        Kernel::Unbroadcast => on_number!(dtype, reduce::unbroadcast(x(), shape))?,
        Kernel::Sum => on_number!(dtype, reduce::sum(x(), &axes(x()), shape))?,
        Kernel::SumT => movement::sum_t(x(), &statics[0], shape)?,
        Kernel::Mean => on_number!(dtype, mean(x(), &axes(x()), shape))?,
        Kernel::MeanT => on_number!(dtype, mean_t(x(), &statics[0], shape))?,
        Kernel::Max => on_number!(dtype, max(x(), &axes(x()), shape))?,
        Kernel::Min => on_number!(dtype, min(x(), &axes(x()), shape))?,
        Kernel::Argmax => on_number!(
            x().dtype(),
            argmax(x(), movement::axis(&statics[0], x().rank()), shape)
        )?,
        Kernel::Argmin => on_number!(
            x().dtype(),
            argmin(x(), movement::axis(&statics[0], x().rank()), shape)
        )?,
        Kernel::Matmul => product(Product::Plain, args, likes, &outs[0])?,
        Kernel::MatmulLhsT => product(Product::Left, args, likes, &outs[0])?,
        Kernel::MatmulRhsT => product(Product::Right, args, likes, &outs[0])?,
        Kernel::Softmax => {
            let axis = movement::axis(&statics[0], x().rank());
            on_float!(dtype, rows::softmax(x(), axis))?
        }
        Kernel::LogSoftmax => {
            let axis = movement::axis(&statics[0], x().rank());
            on_float!(dtype, rows::log_softmax(x(), axis))?
        }
        Kernel::Logsumexp => on_float!(dtype, rows::logsumexp(x(), &axes(x()), shape))?,
        Kernel::CrossEntropy => on_float!(dtype, rows::cross_entropy(x(), args[1]))?,
        Kernel::Normalize => on_float!(dtype, rows::normalize(x(), &axes(x()), eps(1)))?,
        Kernel::InvStd => on_float!(dtype, rows::inv_std(x(), &axes(x()), shape, eps(1)))?,
        Kernel::LayerNorm => on_float!(dtype, rows::layer_norm(x(), args[1], args[2], eps(0)))?,
        Kernel::OneHot => one_hot(x(), dtype, shape)?,
        Kernel::OneHotLike => {
            rows::check_labels(x(), shape[shape.len() - 1])?;
            one_hot(x(), dtype, shape)?
        }
        Kernel::Transpose => movement::transpose(x()),
        Kernel::Permute => movement::permute(x(), &statics[0]),
        Kernel::PermuteT => movement::permute_t(x(), &statics[0]),
        Kernel::SwapAxes => movement::swap_axes(x(), &statics[0], &statics[1]),
        Kernel::Moveaxis => movement::moveaxis(x(), &statics[0], &statics[1]),
        Kernel::Reshape | Kernel::ReshapeT | Kernel::Squeeze | Kernel::Unsqueeze => {
            x().reshape(shape)?
        }
        Kernel::BroadcastTo => x().broadcast_to(shape),
        Kernel::Slice => movement::slice(x(), &statics[0], &statics[2], shape),
        Kernel::SliceT => movement::slice_t(x(), &statics[0], &statics[2], shape)?,
        Kernel::Concat => movement::concat(args, movement::axis(&statics[0], shape.len()), shape)?,
        Kernel::ConcatPart => {
            let axis = movement::axis(&statics[0], shape.len());
            let before = &likes[..movement::int(&statics[1]) as usize];
            let start = before.iter().map(|like| like.shape()[axis]).sum();
            movement::concat_part(x(), axis, start, shape)
        }
        Kernel::Stack => movement::stack(args, movement::axis(&statics[0], shape.len()), shape)?,
        Kernel::Split | Kernel::Unbind => unreachable!("they have several results"),
    };
    Ok(vec![view])
}

/// One number, in every element.
fn constant(value: &Static, dtype: DType, shape: &[usize]) -> View {
    fn of<T: Element>(value: &Static, shape: &[usize]) -> View {
        View::splat(T::from_static(value), shape)
    }
    match dtype {
        DType::Bool => of::<bool>(value, shape),
        _ => on_number!(dtype, of(value, shape)),
    }
}

fn one_hot(labels: &View, dtype: DType, shape: &[usize]) -> Result<View, KernelFault> {
    fn of<T: Number>(labels: &View, shape: &[usize]) -> Result<View, KernelFault> {
        rows::one_hot(labels, T::ONE, shape)
    }
    match dtype {
        DType::Bool => rows::one_hot(labels, true, shape),
        _ => on_number!(dtype, of(labels, shape)),
    }
}

fn over<T: Number>(x: &View, n: usize) -> Result<View, KernelFault> {
    elementwise::map(x, |xs: &[T], ys: &mut [T]| {
        for (y, x) in ys.iter_mut().zip(xs) {
            *y = x.over(n);
        }
    })
}

fn mean<T: Number>(x: &View, axes: &[usize], shape: &[usize]) -> Result<View, KernelFault> {
    let n = axes.iter().map(|&a| x.shape()[a]).product();
    over::<T>(&reduce::sum::<T>(x, axes, shape)?, n)
}

fn mean_t<T: Number>(y: &View, axes: &Static, shape: &[usize]) -> Result<View, KernelFault> {
    let n = movement::axes(axes, shape.len())
        .iter()
        .map(|&a| shape[a])
        .product();
    movement::sum_t(&over::<T>(y, n)?, axes, shape)
}

fn max<T: Number>(x: &View, axes: &[usize], shape: &[usize]) -> Result<View, KernelFault> {
    reduce::extremum(x, axes, shape, T::above)
}

fn min<T: Number>(x: &View, axes: &[usize], shape: &[usize]) -> Result<View, KernelFault> {
    reduce::extremum(x, axes, shape, T::below)
}

fn argmax<T: Number>(x: &View, axis: usize, shape: &[usize]) -> Result<View, KernelFault> {
    reduce::arg_extremum(x, axis, shape, T::above)
}

fn argmin<T: Number>(x: &View, axis: usize, shape: &[usize]) -> Result<View, KernelFault> {
    reduce::arg_extremum(x, axis, shape, T::below)
}

fn product(
    product: Product,
    args: &[&View],
    likes: &[Aval],
    out: &Aval,
) -> Result<View, KernelFault> {
    fn of<T: gemm::Gemm>(
        product: Product,
        args: &[&View],
        ranks: [usize; 2],
        shape: &[usize],
    ) -> Result<View, KernelFault> {
        matmul::product::<T>(product, args[0], args[1], ranks, shape)
    }
    let ranks = [likes[0].shape().len(), likes[1].shape().len()];
    on_number!(out.dtype(), of(product, args, ranks, out.shape()))
}
