//! What the ops compute, on the CPU.
//!
//! [`lower`] is the only place where an op meets its kernel; elementwise ops meet theirs in [`fused`]. A kernel may rely on
//! what the op's shape rule and dtype rule have checked; what only the data can tell is a [`KernelFault`]. The result of a
//! kernel depends on the shapes and the values of its operands, never on where they lie: a strided view gives the same
//! bits as its contiguous copy.
//!
//! Everything that depends on shapes is resolved when a plan is made. What is left are closures on slices.

mod attention;
mod cast;
mod compiled;
mod copy;
mod data;
mod elementwise;
mod epilogue;
mod frequent;
mod fused;
mod gather;
mod gemm;
mod lanes;
mod level;
mod leveled;
mod matmul;
mod memory;
mod movement;
mod number;
mod pages;
mod reduce;
mod rows;
mod rows_t;
#[cfg(all(test, not(debug_assertions)))]
mod speed;
#[cfg(test)]
mod tests;
pub(crate) mod threads;
mod vector;

pub(crate) use compiled::with_patterns;
pub use compiled::{Fused, FusedTable, Loop};
pub(crate) use data::{Data, DataMut, on_element};
pub(crate) use elementwise::{Run, Step, compiled, group, in_dtype};
pub(crate) use epilogue::follow;
pub(crate) use fused::{CHUNK, Group, Sum};
pub(crate) use gemm::{Batch, product_of_slices};
pub(crate) use memory::{ALIGN, Base, Leaf, Needs, Prepared, Region, Task, run};
pub(crate) use pages::zeroed;

use crate::Aval;
use crate::dtype::Element;
use crate::layout::{Layout, numel};
use crate::plan::{Build, Place};
use copy::{Copy, Scatter};
use gradloom_ir::op::Eval;
use gradloom_ir::{DType, Kernel, Op, Static};
use matmul::Product;
use number::{Float, Number};
use reduce::{Max, Min, Reduction};

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

use on_number;

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

/// The results of `op`, one for each of `outs`. `args` are its data operands. Elementwise ops are not lowered here.
///
/// A result may be a view of an operand.
pub(crate) fn lower(
    b: &mut Build,
    op: Op,
    statics: &[Static],
    args: &[Place],
    likes: &[Aval],
    outs: &[Aval],
) -> Vec<Place> {
    let kernel = match op.def().eval() {
        Eval::Kernel(Kernel::Split) => {
            let axis = movement::axis(&statics[1], args[0].rank());
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
        Eval::Kernel(kernel) => kernel,
        Eval::Unary(_) if matches!(op, Op::Identity | Op::StopGradient) => {
            return vec![args[0].clone()];
        }
        Eval::Unary(_) | Eval::Binary(_) | Eval::Compare(_) => {
            unreachable!("elementwise ops are members of groups")
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
            unreachable!("elementwise ops are members of groups")
        }
        Kernel::Scalar | Kernel::FullLike => b.constant(&statics[0], dtype, shape),
        Kernel::Full => b.constant(&statics[1], dtype, shape),
        Kernel::Iota => on_number!(dtype, iota(b, out)),
        Kernel::BroadcastLike | Kernel::BroadcastTo => x().broadcast_to(shape),
        Kernel::Unbroadcast => {
            let axes = repeated(x().shape(), shape);
            on_number!(dtype, sum(b, x(), &axes, out))
        }
        Kernel::Sum => on_number!(dtype, sum(b, x(), &axes(x()), out)),
        Kernel::SumT => sum_t(b, x(), &statics[0], shape),
        Kernel::Mean => on_number!(dtype, mean(b, x(), &axes(x()), out)),
        Kernel::MeanT => on_number!(dtype, mean_t(b, x(), &statics[0], shape)),
        Kernel::Max => on_number!(dtype, max(b, x(), &axes(x()), out)),
        Kernel::Min => on_number!(dtype, min(b, x(), &axes(x()), out)),
        Kernel::Argmax => on_number!(x().dtype(), argmax(b, x(), axis(0, x()), out)),
        Kernel::Argmin => on_number!(x().dtype(), argmin(b, x(), axis(0, x()), out)),
        Kernel::Matmul => product(b, Product::Plain, args, likes, out),
        Kernel::MatmulLhsT => product(b, Product::Left, args, likes, out),
        Kernel::MatmulRhsT => product(b, Product::Right, args, likes, out),
        Kernel::Softmax => on_float!(dtype, softmax(b, x(), axis(0, x()))),
        Kernel::SoftmaxT => on_float!(dtype, softmax_t(b, args, axis(0, x()))),
        Kernel::LogSoftmax => on_float!(dtype, log_softmax(b, x(), axis(0, x()))),
        Kernel::Logsumexp => on_float!(dtype, logsumexp(b, x(), &axes(x()), out)),
        Kernel::CrossEntropy => on_float!(dtype, cross_entropy(b, args)),
        Kernel::SoftmaxLessHot => on_float!(dtype, softmax_less_hot(b, args)),
        Kernel::Normalize => on_float!(dtype, normalize(b, x(), &axes(x()), eps(1))),
        Kernel::NormalizeT => on_float!(dtype, normalize_t(b, args, &axes(x()))),
        Kernel::InvStd => on_float!(dtype, inv_std(b, x(), &axes(x()), out, eps(1))),
        Kernel::LayerNorm => on_float!(dtype, layer_norm(b, args, eps(0))),
        Kernel::Attention => on_float!(dtype, attention::attention(b, args, &statics[0], out)),
        Kernel::AttentionLse => {
            on_float!(dtype, attention::attention_lse(b, args, &statics[0], out))
        }
        Kernel::AttentionJvp => {
            let statics = [&statics[0], &statics[1]];
            on_float!(dtype, attention::attention_jvp(b, args, statics, out))
        }
        Kernel::Tril => on_float!(dtype, tril(b, x())),
        Kernel::RmsNorm => on_float!(dtype, rms_norm(b, args, eps(0))),
        Kernel::OneHot => one_hot(b, x(), out),
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
        Kernel::ConcatPart => {
            let axis = movement::axis(&statics[0], shape.len());
            let before = &likes[..movement::int(&statics[1]) as usize];
            let start = before.iter().map(|like| like.shape()[axis]).sum();
            x().narrow(axis, start, shape[axis])
        }
        Kernel::Stack => {
            let axis = movement::axis(&statics[0], shape.len());
            let mut unit = shape.to_vec();
            unit[axis] = 1;
            let args: Vec<Place> = args.iter().map(|x| b.reshape(x, &unit)).collect();
            concat(b, &args, axis, out)
        }
        Kernel::Split | Kernel::Unbind | Kernel::AttentionVjp => {
            unreachable!("they have several results")
        }
    };
    vec![place]
}

/// A kernel with one operand and one result.
fn map<T: Element, U: Element>(f: impl Fn(&[T], &mut [U]) + Send + Sync + 'static) -> Prepared {
    Box::new(move |args, outs| {
        f(T::slice(args[0]), U::slice_mut(&mut outs[0]));
        Ok(())
    })
}

/// A copy into row-major order. The operand comes as exactly its elements if it is in this order already.
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

/// Whether reading in row-major order would jump from cache line to cache line.
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

/// The axes along which a value of `shape` was repeated to `large`.
fn repeated(large: &[usize], shape: &[usize]) -> Vec<usize> {
    let fresh = large.len() - shape.len();
    let repeated = |&axis: &usize| axis < fresh || shape[axis - fresh] != large[axis];
    (0..large.len()).filter(repeated).collect()
}

/// Reduces `axes`, one group of neighbours at a time, the last one first.
fn fold<T: Element>(
    b: &mut Build,
    x: &Place,
    axes: &[usize],
    out: &Aval,
    how: impl Reduction<T>,
) -> Place {
    let mut groups = neighbours(x.shape(), axes);
    let mut x = x.clone();
    while let Some(i) = groups.iter().rposition(|g| g.1) {
        let size = |groups: &[(usize, bool)]| groups.iter().map(|g| g.0).product::<usize>();
        let arb = [size(&groups[..i]), groups[i].0, size(&groups[i + 1..])];
        let from = b.contiguous(&x);
        let to = Aval::new(x.dtype(), [arb[0] * arb[2]]);
        let kernel = map(move |xs: &[T], out: &mut [T]| reduce::fold(xs, arb, out, how));
        x = b.kernel(&[&from], &to, kernel);
        groups.remove(i);
    }
    b.reshape(&x, out.shape())
}

/// How to make the sum of the results of a group of `shape` while it is in the cache, if that can be: over all elements, over
/// the last axes or over the first.
pub(crate) fn fused_sum(op: Op, statics: &[Static], shape: &[usize], out: &[usize]) -> Option<Sum> {
    let axes = match op {
        Op::Sum => movement::axes(&statics[0], shape.len()),
        Op::Unbroadcast => repeated(shape, out),
        _ => return None,
    };
    match neighbours(shape, &axes)[..] {
        _ if numel(shape) == 0 => None,
        [(_, true)] => Some(Sum::All),
        [_, (cols, true)] if cols <= CHUNK => Some(Sum::Rows(cols)),
        [(_, true), (cols, false)] => Some(Sum::Columns(cols)),
        _ => None,
    }
}

/// The kernel that makes a sum of the totals that a group has written.
pub(crate) fn join(dtype: DType) -> Prepared {
    fn of<T: Number>() -> Prepared {
        Box::new(|_, outs| {
            let [totals, out] = outs else {
                unreachable!("totals and their sum")
            };
            reduce::join(T::slice_mut(totals), T::slice_mut(out));
            Ok(())
        })
    }
    on_number!(dtype, of())
}

/// The lengths of the axes, neighbours that are all reduced or all kept taken together, and whether they are reduced.
fn neighbours(shape: &[usize], axes: &[usize]) -> Vec<(usize, bool)> {
    let mut groups: Vec<(usize, bool)> = Vec::new();
    for (axis, &len) in shape.iter().enumerate() {
        let reduced = axes.contains(&axis);
        match groups.last_mut() {
            _ if len == 1 => {}
            Some(last) if last.1 == reduced => last.0 *= len,
            _ => groups.push((len, reduced)),
        }
    }
    groups
}

/// What closures that are called from a plan are.
trait Copyable: std::marker::Copy + Send + Sync + 'static {}
impl<F: std::marker::Copy + Send + Sync + 'static> Copyable for F {}

fn sum<T: Number>(b: &mut Build, x: &Place, axes: &[usize], out: &Aval) -> Place {
    fold::<T>(b, x, axes, out, reduce::Sum)
}

/// Divides by a count.
fn over<T: Number>(b: &mut Build, x: &Place, n: usize) -> Place {
    let out = Aval::new(x.dtype(), x.shape());
    let from = b.contiguous(x);
    let divide = map(move |xs: &[T], ys: &mut [T]| {
        for (y, x) in ys.iter_mut().zip(xs) {
            *y = x.over(n);
        }
    });
    b.kernel(&[&from], &out, divide)
}

fn mean<T: Number>(b: &mut Build, x: &Place, axes: &[usize], out: &Aval) -> Place {
    let n = axes.iter().map(|&a| x.shape()[a]).product();
    let total = sum::<T>(b, x, axes, out);
    over::<T>(b, &total, n)
}

/// `y`, a value reduced over axes, repeated along them to `shape`.
fn sum_t(b: &mut Build, y: &Place, axes: &Static, shape: &[usize]) -> Place {
    let reduced = movement::axes(axes, shape.len());
    let unit = |(axis, &len): (usize, &usize)| if reduced.contains(&axis) { 1 } else { len };
    let kept: Vec<usize> = shape.iter().enumerate().map(unit).collect();
    b.reshape(y, &kept).broadcast_to(shape)
}

fn mean_t<T: Number>(b: &mut Build, y: &Place, axes: &Static, shape: &[usize]) -> Place {
    let reduced = movement::axes(axes, shape.len());
    let n = reduced.iter().map(|&a| shape[a]).product();
    let part = over::<T>(b, y, n);
    sum_t(b, &part, axes, shape)
}

fn max<T: Number>(b: &mut Build, x: &Place, axes: &[usize], out: &Aval) -> Place {
    fold::<T>(b, x, axes, out, Max)
}

fn min<T: Number>(b: &mut Build, x: &Place, axes: &[usize], out: &Aval) -> Place {
    fold::<T>(b, x, axes, out, Min)
}

fn arg_extremum<T: Number>(
    b: &mut Build,
    x: &Place,
    axis: usize,
    out: &Aval,
    wins: impl Fn(T, T) -> bool + Copyable,
    most: impl Reduction<T>,
) -> Place {
    let shape = x.shape();
    let arb = [
        numel(&shape[..axis]),
        shape[axis],
        numel(&shape[axis + 1..]),
    ];
    let from = b.contiguous(x);
    let kernel =
        map(move |xs: &[T], out: &mut [i64]| reduce::arg_extremum(xs, arb, out, wins, most));
    b.kernel(&[&from], out, kernel)
}

fn argmax<T: Number>(b: &mut Build, x: &Place, axis: usize, out: &Aval) -> Place {
    arg_extremum(b, x, axis, out, T::above, Max)
}

fn argmin<T: Number>(b: &mut Build, x: &Place, axis: usize, out: &Aval) -> Place {
    arg_extremum(b, x, axis, out, T::below, Min)
}

fn product(b: &mut Build, product: Product, args: &[Place], likes: &[Aval], out: &Aval) -> Place {
    let ranks = [likes[0].shape().len(), likes[1].shape().len()];
    let args = [&args[0], &args[1]];
    on_number!(out.dtype(), matmul::product(b, product, args, ranks, out))
}

/// The operand with `axes` last, in row-major order; the number of elements along them; and the order of the axes.
fn rows(b: &mut Build, x: &Place, axes: &[usize]) -> (Place, usize, Vec<usize>) {
    let kept = (0..x.rank()).filter(|a| !axes.contains(a));
    let order: Vec<usize> = kept.chain(axes.iter().copied()).collect();
    let cols = axes.iter().map(|&a| x.shape()[a]).product();
    (b.contiguous(&x.permute(&order)), cols, order)
}

/// Maps the rows along `axes` to rows.
fn map_rows<T: Element>(
    b: &mut Build,
    x: &Place,
    axes: &[usize],
    f: impl Fn(&[T], &mut [T], usize) + Send + Sync + 'static,
) -> Place {
    let (from, cols, order) = rows(b, x, axes);
    let out = Aval::new(x.dtype(), from.shape());
    let kernel = map(move |xs: &[T], out: &mut [T]| f(xs, out, cols));
    b.kernel(&[&from], &out, kernel).permute(&inverse(&order))
}

/// The order of axes that undoes another one.
fn inverse(order: &[usize]) -> Vec<usize> {
    let mut back = vec![0; order.len()];
    for (i, &axis) in order.iter().enumerate() {
        back[axis] = i;
    }
    back
}

/// Maps the rows along `axes` to numbers.
fn fold_rows<T: Element>(
    b: &mut Build,
    x: &Place,
    axes: &[usize],
    out: &Aval,
    f: impl Fn(&[T], &mut [T], usize) + Send + Sync + 'static,
) -> Place {
    let (from, cols, _) = rows(b, x, axes);
    let kernel = map(move |xs: &[T], out: &mut [T]| f(xs, out, cols));
    b.kernel(&[&from], out, kernel)
}

fn softmax<T: Float>(b: &mut Build, x: &Place, axis: usize) -> Place {
    map_rows(b, x, &[axis], rows::softmax::<T>)
}

fn softmax_t<T: Float>(b: &mut Build, args: &[Place], axis: usize) -> Place {
    let (v, cols, order) = rows(b, &args[0], &[axis]);
    let (y, _, _) = rows(b, &args[1], &[axis]);
    let kernel: Prepared = Box::new(move |args, outs| {
        let [v, y] = [0, 1].map(|i| T::slice(args[i]));
        rows_t::softmax_t(v, y, T::slice_mut(&mut outs[0]), cols);
        Ok(())
    });
    let out = Aval::new(v.dtype(), v.shape());
    b.kernel(&[&v, &y], &out, kernel).permute(&inverse(&order))
}

fn normalize_t<T: Float>(b: &mut Build, args: &[Place], axes: &[usize]) -> Place {
    let (v, cols, order) = rows(b, &args[0], axes);
    let (y, _, _) = rows(b, &args[1], axes);
    // One number for each row.
    let (r, _, _) = rows(b, &args[2], axes);
    let kernel: Prepared = Box::new(move |args, outs| {
        let [v, y, r] = [0, 1, 2].map(|i| T::slice(args[i]));
        rows_t::normalize_t([v, y, r], T::slice_mut(&mut outs[0]), cols);
        Ok(())
    });
    let out = Aval::new(v.dtype(), v.shape());
    b.kernel(&[&v, &y, &r], &out, kernel)
        .permute(&inverse(&order))
}

fn log_softmax<T: Float>(b: &mut Build, x: &Place, axis: usize) -> Place {
    map_rows(b, x, &[axis], rows::log_softmax::<T>)
}

fn logsumexp<T: Float>(b: &mut Build, x: &Place, axes: &[usize], out: &Aval) -> Place {
    fold_rows(b, x, axes, out, rows::logsumexp::<T>)
}

fn normalize<T: Float>(b: &mut Build, x: &Place, axes: &[usize], eps: f64) -> Place {
    let normalize = move |xs: &[T], out: &mut [T], cols| rows::normalize(xs, out, cols, eps);
    map_rows(b, x, axes, normalize)
}

fn inv_std<T: Float>(b: &mut Build, x: &Place, axes: &[usize], out: &Aval, eps: f64) -> Place {
    let inv_std = move |xs: &[T], out: &mut [T], cols| rows::inv_std(xs, out, cols, eps);
    fold_rows(b, x, axes, out, inv_std)
}

fn layer_norm<T: Float>(b: &mut Build, args: &[Place], eps: f64) -> Place {
    let x = b.contiguous(&args[0]);
    let cols = x.shape()[x.rank() - 1];
    let [weight, bias] = [1, 2].map(|i| b.contiguous(&args[i].broadcast_to(&[cols])));
    let out = Aval::new(x.dtype(), x.shape());
    let kernel: Prepared = Box::new(move |args, outs| {
        let affine = [T::slice(args[1]), T::slice(args[2])];
        rows::layer_norm(
            T::slice(args[0]),
            affine,
            T::slice_mut(&mut outs[0]),
            cols,
            eps,
        );
        Ok(())
    });
    b.kernel(&[&x, &weight, &bias], &out, kernel)
}

fn cross_entropy<T: Float>(b: &mut Build, args: &[Place]) -> Place {
    let [logits, labels] = [b.contiguous(&args[0]), b.contiguous(&args[1])];
    let classes = logits.shape()[logits.rank() - 1];
    let kernel: Prepared = Box::new(move |args, outs| {
        let loss = rows::cross_entropy(T::slice(args[0]), args[1], classes)?;
        T::slice_mut(&mut outs[0])[0] = loss;
        Ok(())
    });
    let out = Aval::new(logits.dtype(), []);
    b.kernel(&[&logits, &labels], &out, kernel)
}

/// One row for each row of logits.
fn softmax_less_hot<T: Float>(b: &mut Build, args: &[Place]) -> Place {
    let [logits, labels] = [b.contiguous(&args[0]), b.contiguous(&args[1])];
    let classes = logits.shape()[logits.rank() - 1];
    let kernel: Prepared = Box::new(move |args, outs| {
        let out = T::slice_mut(&mut outs[0]);
        rows::softmax_less_hot(T::slice(args[0]), args[1], out, classes)
    });
    let out = Aval::new(logits.dtype(), logits.shape());
    b.kernel(&[&logits, &labels], &out, kernel)
}

fn rms_norm<T: Float>(b: &mut Build, args: &[Place], eps: f64) -> Place {
    let x = b.contiguous(&args[0]);
    let cols = x.shape()[x.rank() - 1];
    let weight = b.contiguous(&args[1].broadcast_to(&[cols]));
    let out = Aval::new(x.dtype(), x.shape());
    let kernel: Prepared = Box::new(move |args, outs| {
        let [x, weight] = [0, 1].map(|i| T::slice(args[i]));
        rows::rms_norm(x, weight, T::slice_mut(&mut outs[0]), eps);
        Ok(())
    });
    b.kernel(&[&x, &weight], &out, kernel)
}

fn one_hot(b: &mut Build, labels: &Place, out: &Aval) -> Place {
    fn of<T: Element>(classes: usize, one: T) -> Prepared {
        Box::new(move |args, outs| {
            rows::one_hot(args[0], T::slice_mut(&mut outs[0]), classes, one);
            Ok(())
        })
    }
    fn number<T: Number>(classes: usize) -> Prepared {
        of(classes, T::ONE)
    }
    let classes = out.shape()[out.shape().len() - 1];
    let kernel = match out.dtype() {
        DType::Bool => of(classes, true),
        dtype => on_number!(dtype, number(classes)),
    };
    let labels = b.contiguous(labels);
    b.kernel(&[&labels], out, kernel)
}

/// `y` in its place in zeros: the transpose of `slice`.
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
