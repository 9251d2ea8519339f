//! Lowering of kernels on rows, along any axes.

use super::cut::ByRow;
use super::memory::Prepared;
use super::number::{Float, Number};
use super::rows::Way;
use super::{on_number, rows, rows_t};
use crate::Aval;
use crate::dtype::Element;
use crate::layout::numel;
use crate::plan::{Build, Place};
use gradloom_ir::{DType, Op};

/// Moves `axes` last and makes the operand contiguous.
///
/// Returns it with the number of elements along `axes` and the order of the axes.
fn along(b: &mut Build, x: &Place, axes: &[usize]) -> (Place, usize, Vec<usize>) {
    let kept = (0..x.rank()).filter(|a| !axes.contains(a));
    let order: Vec<usize> = kept.chain(axes.iter().copied()).collect();
    let cols = axes.iter().map(|&a| x.shape()[a]).product();
    (b.contiguous(&x.permute(&order)), cols, order)
}

/// Returns the inverse permutation of `order`.
fn inverse(order: &[usize]) -> Vec<usize> {
    let mut back = vec![0; order.len()];
    for (i, &axis) in order.iter().enumerate() {
        back[axis] = i;
    }
    back
}

/// Returns the number of rows of `cols` elements.
fn n_rows(x: &Place, cols: usize) -> usize {
    numel(x.shape()).checked_div(cols).unwrap_or(0)
}

/// Maps the rows of the operands along `axes` to rows of the result.
fn map_rows<T: Float, const N: usize>(
    b: &mut Build,
    args: [&Place; N],
    axes: &[usize],
    f: impl Fn([&[T]; N], &mut [T], usize, Way) + Send + Sync + 'static,
) -> Place {
    let (_, cols, order) = along(b, args[0], axes);
    let args = args.map(|x| {
        let (x, cols, _) = along(b, x, axes);
        (x, cols)
    });
    let out = Aval::new(args[0].0.dtype(), args[0].0.shape());
    let n_rows = n_rows(&args[0].0, cols);
    let widths = args.each_ref().map(|(_, cols)| Some(*cols));
    let kernel = ByRow::new(n_rows, widths, [Some(cols)], move |args, outs, way| {
        let rows = std::array::from_fn(|i| T::slice(args[i]));
        f(rows, T::slice_mut(&mut outs[0]), cols, way);
    });
    let args: Vec<&Place> = args.iter().map(|(x, _)| x).collect();
    let mut made = b.by_row(&args, &[out], kernel);
    made.remove(0).permute(&inverse(&order))
}

/// Maps each row along `axes` to one number.
fn fold_rows<T: Float>(
    b: &mut Build,
    x: &Place,
    axes: &[usize],
    out: &Aval,
    f: impl Fn(&[T], &mut [T], usize, Way) + Send + Sync + 'static,
) -> Place {
    let (from, cols, _) = along(b, x, axes);
    let widths = ([Some(cols)], [Some(1)]);
    let kernel = ByRow::new(
        n_rows(&from, cols),
        widths.0,
        widths.1,
        move |args, outs, way| f(T::slice(args[0]), T::slice_mut(&mut outs[0]), cols, way),
    );
    b.by_row(&[&from], std::slice::from_ref(out), kernel)
        .remove(0)
}

pub(super) fn softmax<T: Float>(b: &mut Build, x: &Place, axis: usize) -> Place {
    map_rows(b, [x], &[axis], |[x], out, cols, way| {
        rows::softmax::<T>(x, out, cols, way);
    })
}

pub(super) fn log_softmax<T: Float>(b: &mut Build, x: &Place, axis: usize) -> Place {
    map_rows(b, [x], &[axis], |[x], out, cols, way| {
        rows::log_softmax::<T>(x, out, cols, way);
    })
}

pub(super) fn softmax_t<T: Float>(b: &mut Build, args: &[Place], axis: usize) -> Place {
    map_rows(b, [&args[0], &args[1]], &[axis], rows_t::softmax_t::<T>)
}

pub(super) fn log_softmax_jvp<T: Float>(b: &mut Build, args: &[Place], axis: usize) -> Place {
    let args = [&args[0], &args[1]];
    map_rows(b, args, &[axis], rows_t::log_softmax_jvp::<T>)
}

pub(super) fn log_softmax_vjp<T: Float>(b: &mut Build, args: &[Place], axis: usize) -> Place {
    let args = [&args[0], &args[1]];
    map_rows(b, args, &[axis], rows_t::log_softmax_vjp::<T>)
}

pub(super) fn normalize<T: Float>(b: &mut Build, x: &Place, axes: &[usize], eps: f64) -> Place {
    map_rows(b, [x], axes, move |[x], out, cols, way| {
        rows::normalize::<T>(x, out, cols, eps, way);
    })
}

/// The third operand has one element per row.
pub(super) fn normalize_t<T: Float>(b: &mut Build, args: &[Place], axes: &[usize]) -> Place {
    let args = [&args[0], &args[1], &args[2]];
    map_rows(b, args, axes, rows_t::normalize_t::<T>)
}

pub(super) fn logsumexp<T: Float>(b: &mut Build, x: &Place, axes: &[usize], out: &Aval) -> Place {
    fold_rows(b, x, axes, out, rows::logsumexp::<T>)
}

pub(super) fn inv_std<T: Float>(
    b: &mut Build,
    x: &Place,
    axes: &[usize],
    out: &Aval,
    eps: f64,
) -> Place {
    fold_rows(b, x, axes, out, move |x, out, cols, way| {
        rows::inv_std::<T>(x, out, cols, eps, way);
    })
}

pub(super) fn layer_norm<T: Float>(b: &mut Build, args: &[Place], eps: f64) -> Place {
    affine(b, args, move |[x, weight, bias], out, way| {
        rows::layer_norm::<T>(x, [weight, bias], out, eps, way);
    })
}

pub(super) fn rms_norm<T: Float>(b: &mut Build, args: &[Place], eps: f64) -> Place {
    affine(b, args, move |[x, weight], out, way| {
        rows::rms_norm::<T>(x, weight, out, eps, way);
    })
}

/// Maps the rows of the first operand along the last axis. Each other operand is a single row.
fn affine<T: Float, const N: usize>(
    b: &mut Build,
    args: &[Place],
    f: impl Fn([&[T]; N], &mut [T], Way) + Send + Sync + 'static,
) -> Place {
    let x = b.contiguous(&args[0]);
    let cols = x.shape()[x.rank() - 1];
    let mut places = vec![x];
    for arg in &args[1..N] {
        places.push(b.contiguous(&arg.broadcast_to(&[cols])));
    }
    let out = Aval::new(places[0].dtype(), places[0].shape());
    let widths: [_; N] = std::array::from_fn(|i| (i == 0).then_some(cols));
    let n_rows = n_rows(&places[0], cols);
    let kernel = ByRow::new(n_rows, widths, [Some(cols)], move |args, outs, way| {
        let args = std::array::from_fn(|i| T::slice(args[i]));
        f(args, T::slice_mut(&mut outs[0]), way);
    });
    let places: Vec<&Place> = places.iter().collect();
    b.by_row(&places, &[out], kernel).remove(0)
}

/// Lowers `cross_entropy`. If the plan needs `softmax_less_hot` of the same operands, computes it
/// as a by-product.
pub(super) fn cross_entropy<T: Float>(b: &mut Build, args: &[Place]) -> Place {
    let [logits, labels] = [b.contiguous(&args[0]), b.contiguous(&args[1])];
    let classes = logits.shape()[logits.rank() - 1];
    let n_rows = numel(labels.shape());
    // The mean loss, the loss of each row, and the derivative.
    let mut avals = vec![
        Aval::new(logits.dtype(), []),
        Aval::new(logits.dtype(), [n_rows]),
    ];
    let mut widths = vec![None, Some(1)];
    let both = b.is_wanted(Op::SoftmaxLessHot);
    if both {
        avals.push(Aval::new(logits.dtype(), logits.shape()));
        widths.push(Some(classes));
    }
    let kernel = ByRow::new(
        n_rows,
        [Some(classes), Some(1)],
        widths,
        move |args, outs, way| {
            let (losses, others) = outs[1..]
                .split_first_mut()
                .expect("the result at index 1 holds the losses of the rows");
            let less_hot = others.first_mut().map_or(&mut [][..], T::slice_mut);
            let logits = T::slice(args[0]);
            rows::losses(
                logits,
                args[1],
                T::slice_mut(losses),
                less_hot,
                classes,
                way,
            );
        },
    );
    let kernel = kernel
        .checked(1, move |labels| rows::check_labels(labels, classes))
        .then(|outs| {
            let (loss, others) = outs
                .split_first_mut()
                .expect("the result at index 0 is the mean loss");
            T::slice_mut(loss)[0] = rows::mean_loss::<T>(T::slice_mut(&mut others[0]));
        });
    let mut made = b.by_row(&[&logits, &labels], &avals, kernel);
    if both && let Some(less_hot) = made.pop() {
        b.gives_along(Op::SoftmaxLessHot, &[], args, &less_hot);
    }
    made.remove(0)
}

/// The result has one row per row of logits.
pub(super) fn softmax_less_hot<T: Float>(b: &mut Build, args: &[Place]) -> Place {
    if let Some(made) = b.given_along(Op::SoftmaxLessHot, &[], args) {
        return made;
    }
    let [logits, labels] = [b.contiguous(&args[0]), b.contiguous(&args[1])];
    let classes = logits.shape()[logits.rank() - 1];
    let widths = [Some(classes), Some(1)];
    let n_rows = numel(labels.shape());
    let kernel = ByRow::new(n_rows, widths, [Some(classes)], move |args, outs, way| {
        let out = T::slice_mut(&mut outs[0]);
        let way = Way {
            past_caches: false,
            ..way
        };
        rows::softmax_less_hot(T::slice(args[0]), args[1], out, classes, way);
    });
    let kernel = kernel.checked(1, move |labels| rows::check_labels(labels, classes));
    let out = Aval::new(logits.dtype(), logits.shape());
    b.by_row(&[&logits, &labels], &[out], kernel).remove(0)
}

pub(super) fn one_hot(b: &mut Build, labels: &Place, out: &Aval) -> Place {
    fn of<T: Element>(classes: usize, one: T) -> Prepared {
        Box::new(move |args, outs| rows::one_hot(args[0], T::slice_mut(&mut outs[0]), classes, one))
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
