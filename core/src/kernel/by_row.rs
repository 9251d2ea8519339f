//! Kernels on rows, as tasks: along axes that need not be the last.

use super::memory::Prepared;
use super::number::{Float, Number};
use super::{map, on_number, rows, rows_t};
use crate::Aval;
use crate::dtype::Element;
use crate::plan::{Build, Place};
use gradloom_ir::{DType, Op};

/// The operand with `axes` last, in row-major order; the number of elements along them; and the order of the axes.
fn along(b: &mut Build, x: &Place, axes: &[usize]) -> (Place, usize, Vec<usize>) {
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
    let (from, cols, order) = along(b, x, axes);
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
    let (from, cols, _) = along(b, x, axes);
    let kernel = map(move |xs: &[T], out: &mut [T]| f(xs, out, cols));
    b.kernel(&[&from], out, kernel)
}

pub(super) fn softmax<T: Float>(b: &mut Build, x: &Place, axis: usize) -> Place {
    map_rows(b, x, &[axis], rows::softmax::<T>)
}

/// Maps the rows of two operands along an axis to rows.
fn map_two<T: Element>(
    b: &mut Build,
    args: &[Place],
    axis: usize,
    f: impl Fn(&[T], &[T], &mut [T], usize) + Send + Sync + 'static,
) -> Place {
    let (v, cols, order) = along(b, &args[0], &[axis]);
    let (y, _, _) = along(b, &args[1], &[axis]);
    let kernel: Prepared = Box::new(move |args, outs| {
        let [v, y] = [0, 1].map(|i| T::slice(args[i]));
        f(v, y, T::slice_mut(&mut outs[0]), cols);
        Ok(())
    });
    let out = Aval::new(v.dtype(), v.shape());
    b.kernel(&[&v, &y], &out, kernel).permute(&inverse(&order))
}

pub(super) fn softmax_t<T: Float>(b: &mut Build, args: &[Place], axis: usize) -> Place {
    map_two(b, args, axis, rows_t::softmax_t::<T>)
}

pub(super) fn log_softmax_jvp<T: Float>(b: &mut Build, args: &[Place], axis: usize) -> Place {
    map_two(b, args, axis, rows_t::log_softmax_jvp::<T>)
}

pub(super) fn log_softmax_vjp<T: Float>(b: &mut Build, args: &[Place], axis: usize) -> Place {
    map_two(b, args, axis, rows_t::log_softmax_vjp::<T>)
}

pub(super) fn normalize_t<T: Float>(b: &mut Build, args: &[Place], axes: &[usize]) -> Place {
    let (v, cols, order) = along(b, &args[0], axes);
    let (y, _, _) = along(b, &args[1], axes);
    // One number for each row.
    let (r, _, _) = along(b, &args[2], axes);
    let kernel: Prepared = Box::new(move |args, outs| {
        let [v, y, r] = [0, 1, 2].map(|i| T::slice(args[i]));
        rows_t::normalize_t([v, y, r], T::slice_mut(&mut outs[0]), cols);
        Ok(())
    });
    let out = Aval::new(v.dtype(), v.shape());
    b.kernel(&[&v, &y, &r], &out, kernel)
        .permute(&inverse(&order))
}

pub(super) fn log_softmax<T: Float>(b: &mut Build, x: &Place, axis: usize) -> Place {
    map_rows(b, x, &[axis], rows::log_softmax::<T>)
}

pub(super) fn logsumexp<T: Float>(b: &mut Build, x: &Place, axes: &[usize], out: &Aval) -> Place {
    fold_rows(b, x, axes, out, rows::logsumexp::<T>)
}

pub(super) fn normalize<T: Float>(b: &mut Build, x: &Place, axes: &[usize], eps: f64) -> Place {
    let normalize = move |xs: &[T], out: &mut [T], cols| rows::normalize(xs, out, cols, eps);
    map_rows(b, x, axes, normalize)
}

pub(super) fn inv_std<T: Float>(
    b: &mut Build,
    x: &Place,
    axes: &[usize],
    out: &Aval,
    eps: f64,
) -> Place {
    let inv_std = move |xs: &[T], out: &mut [T], cols| rows::inv_std(xs, out, cols, eps);
    fold_rows(b, x, axes, out, inv_std)
}

pub(super) fn layer_norm<T: Float>(b: &mut Build, args: &[Place], eps: f64) -> Place {
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

/// Also gives what `softmax_less_hot` is, where the plan needs that of the same operands.
pub(super) fn cross_entropy<T: Float>(b: &mut Build, args: &[Place]) -> Place {
    let [logits, labels] = [b.contiguous(&args[0]), b.contiguous(&args[1])];
    let classes = logits.shape()[logits.rank() - 1];
    let both = b.is_wanted(Op::SoftmaxLessHot);
    let kernel: Prepared = Box::new(move |args, outs| {
        let (loss, others) = outs.split_first_mut().expect("a result");
        let less_hot = others.first_mut().map_or(&mut [][..], T::slice_mut);
        let found = rows::cross_entropy(T::slice(args[0]), args[1], less_hot, classes)?;
        T::slice_mut(loss)[0] = found;
        Ok(())
    });
    let mut outs = vec![Aval::new(logits.dtype(), [])];
    if both {
        outs.push(Aval::new(logits.dtype(), logits.shape()));
    }
    let mut made = b.kernels(&[&logits, &labels], &outs, kernel);
    if both && let Some(less_hot) = made.pop() {
        b.gives_along(Op::SoftmaxLessHot, &[], args, &less_hot);
    }
    made.remove(0)
}

/// One row for each row of logits.
pub(super) fn softmax_less_hot<T: Float>(b: &mut Build, args: &[Place]) -> Place {
    if let Some(made) = b.given_along(Op::SoftmaxLessHot, &[], args) {
        return made;
    }
    let [logits, labels] = [b.contiguous(&args[0]), b.contiguous(&args[1])];
    let classes = logits.shape()[logits.rank() - 1];
    let kernel: Prepared = Box::new(move |args, outs| {
        let out = T::slice_mut(&mut outs[0]);
        rows::softmax_less_hot(T::slice(args[0]), args[1], out, classes)
    });
    let out = Aval::new(logits.dtype(), logits.shape());
    b.kernel(&[&logits, &labels], &out, kernel)
}

pub(super) fn rms_norm<T: Float>(b: &mut Build, args: &[Place], eps: f64) -> Place {
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

pub(super) fn one_hot(b: &mut Build, labels: &Place, out: &Aval) -> Place {
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
