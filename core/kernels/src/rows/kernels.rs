//! Kernels on rows and columns, resolved for a dtype and sizes.

use super::forward::{self, Root, RowMode};
use super::row_kernel::RowKernel;
use super::{columns, jacobians};
use crate::array;
use crate::memory::Element;
use crate::memory::scratch::Plain;
use crate::simd::number::{Float, Number};
use crate::task::Prepared;
use gradloom_ir::DType;

/// Dtype and sizes of the rows of an operand. Its rows are contiguous and adjacent.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// Dtype of the elements.
    pub dtype: DType,
    /// Number of rows.
    pub n_rows: usize,
    /// Number of elements per row.
    pub cols: usize,
}

/// Dtype and sizes of a contiguous operand of which some axes are reduced.
#[derive(Clone, Copy, Debug)]
pub struct Along {
    /// Dtype of the elements.
    pub dtype: DType,
    /// Sizes `[a, r, b, c]`, of which `r` and `c` are reduced.
    pub arbc: [usize; 4],
}

impl Along {
    /// Returns the number of elements that are reduced to one.
    pub fn reduced(&self) -> usize {
        self.arbc[1] * self.arbc[3]
    }

    /// Returns the kernel that calls `by_rows` with the number of elements of a row if the last axis alone is reduced,
    /// and `by_columns` with the sizes of a matrix otherwise.
    ///
    /// An operand or the result has all elements of each matrix if its entry of `whole` is true, and `b` otherwise.
    fn kernel<T: Float, const N: usize>(
        self,
        whole: ([bool; N], bool),
        by_rows: impl Fn([&[T]; N], &mut [T], usize, RowMode) + Send + Sync + 'static,
        by_columns: impl Fn([&[T]; N], &mut [T], [usize; 3], RowMode) + Send + Sync + 'static,
    ) -> RowKernel {
        let [a, r, b, c] = self.arbc;
        let width = |whole: bool| Some(if whole { r * b * c } else { b });
        let (args, out) = (whole.0.map(width), [width(whole.1)]);
        RowKernel::new(a, args, out, move |args, outs, mode| {
            let args = array::from_fn(|i| T::slice(args[i]));
            let out = T::slice_mut(&mut outs[0]);
            match [r, b] {
                [1, 1] => by_rows(args, out, c, mode),
                _ => by_columns(args, out, [r, b, c], mode),
            }
        })
    }
}

/// Operands and a result of the same sizes.
const fn maps<const N: usize>() -> ([bool; N], bool) {
    ([true; N], true)
}

/// An operand that is reduced.
const FOLDS: ([bool; 1], bool) = ([true], false);

/// Maps the rows of the first operand. Each other operand is a single row.
fn affine<T: Float, const N: usize>(
    of: Rows,
    f: impl Fn([&[T]; N], &mut [T], RowMode) + Send + Sync + 'static,
) -> RowKernel {
    let widths: [_; N] = array::from_fn(|i| (i == 0).then_some(of.cols));
    RowKernel::new(
        of.n_rows,
        widths,
        [Some(of.cols)],
        move |args, outs, mode| {
            let args = array::from_fn(|i| T::slice(args[i]));
            f(args, T::slice_mut(&mut outs[0]), mode);
        },
    )
}

/// `softmax(x)`.
pub fn softmax(of: Along) -> RowKernel {
    fn typed<T: Float + Plain>(of: Along) -> RowKernel {
        of.kernel::<T, 1>(
            maps(),
            |[x], out, cols, mode| forward::softmax(x, out, cols, mode),
            |[x], out, sizes, mode| columns::softmax(x, out, sizes, mode),
        )
    }
    on_float!(of.dtype, typed(of))
}

/// `log softmax(x)`.
pub fn log_softmax(of: Along) -> RowKernel {
    fn typed<T: Float + Plain>(of: Along) -> RowKernel {
        of.kernel::<T, 1>(
            maps(),
            |[x], out, cols, mode| forward::log_softmax(x, out, cols, mode),
            |[x], out, sizes, mode| columns::log_softmax(x, out, sizes, mode),
        )
    }
    on_float!(of.dtype, typed(of))
}

/// Jacobian of softmax with the result `y`, applied to `v`: operands `v` and `y`.
pub fn softmax_t(of: Along) -> RowKernel {
    fn typed<T: Float + Plain>(of: Along) -> RowKernel {
        of.kernel::<T, 2>(maps(), jacobians::softmax_t, columns::softmax_t)
    }
    on_float!(of.dtype, typed(of))
}

/// Jacobian of log-softmax with the result `y`, applied to a tangent `v`: operands `v` and `y`.
pub fn log_softmax_jvp(of: Along) -> RowKernel {
    fn typed<T: Float + Plain>(of: Along) -> RowKernel {
        of.kernel::<T, 2>(maps(), jacobians::log_softmax_jvp, columns::log_softmax_jvp)
    }
    on_float!(of.dtype, typed(of))
}

/// Transposed Jacobian of log-softmax with the result `y`, applied to a cotangent `v`: operands
/// `v` and `y`.
pub fn log_softmax_vjp(of: Along) -> RowKernel {
    fn typed<T: Float + Plain>(of: Along) -> RowKernel {
        of.kernel::<T, 2>(maps(), jacobians::log_softmax_vjp, columns::log_softmax_vjp)
    }
    on_float!(of.dtype, typed(of))
}

/// `(x - mean(x)) / sqrt(var(x) + eps)`.
pub fn normalize(of: Along, eps: f64) -> RowKernel {
    fn typed<T: Float + Plain>(of: Along, eps: f64) -> RowKernel {
        of.kernel::<T, 1>(
            maps(),
            move |[x], out, cols, mode| forward::normalize(x, out, cols, eps, mode),
            move |[x], out, sizes, mode| columns::normalize(x, out, sizes, eps, mode),
        )
    }
    on_float!(of.dtype, typed(of, eps))
}

/// Jacobian of [`normalize`], which is symmetric, applied to `v`: operands `v`, the result, and the
/// inverse standard deviations.
pub fn normalize_t(of: Along) -> RowKernel {
    fn typed<T: Float + Plain>(of: Along) -> RowKernel {
        let whole = ([true, true, false], true);
        of.kernel::<T, 3>(whole, jacobians::normalize_t, columns::normalize_t)
    }
    on_float!(of.dtype, typed(of))
}

/// `log sum exp(x)`.
pub fn logsumexp(of: Along) -> RowKernel {
    fn typed<T: Float + Plain>(of: Along) -> RowKernel {
        of.kernel::<T, 1>(
            FOLDS,
            |[x], out, cols, mode| forward::logsumexp(x, out, cols, mode),
            |[x], out, sizes, mode| columns::logsumexp(x, out, sizes, mode),
        )
    }
    on_float!(of.dtype, typed(of))
}

/// `1 / sqrt(var(x) + eps)`.
pub fn inv_std(of: Along, eps: f64) -> RowKernel {
    fn typed<T: Float + Plain>(of: Along, eps: f64) -> RowKernel {
        of.kernel::<T, 1>(
            FOLDS,
            move |[x], out, cols, mode| forward::inv_std(x, out, cols, eps, mode),
            move |[x], out, sizes, mode| columns::inv_std(x, out, sizes, eps, mode),
        )
    }
    on_float!(of.dtype, typed(of, eps))
}

/// The sum of the squared differences from the mean, over `divisor`, or the root of that.
pub fn variance(of: Along, divisor: usize, root: Root) -> RowKernel {
    fn typed<T: Float + Plain>(of: Along, divisor: usize, root: Root) -> RowKernel {
        of.kernel::<T, 1>(
            FOLDS,
            move |[x], out, cols, mode| forward::variance(x, out, cols, divisor, root, mode),
            move |[x], out, sizes, mode| columns::variance(x, out, sizes, divisor, root, mode),
        )
    }
    on_float!(of.dtype, typed(of, divisor, root))
}

/// [`normalize`] times a weight plus a bias, which are single rows: operands `x`, weight and bias.
pub fn layer_norm(of: Rows, eps: f64) -> RowKernel {
    fn typed<T: Float>(of: Rows, eps: f64) -> RowKernel {
        affine(of, move |[x, weight, bias], out, mode| {
            forward::layer_norm::<T>(x, [weight, bias], out, eps, mode);
        })
    }
    on_float!(of.dtype, typed(of, eps))
}

/// `x / sqrt(mean(x^2) + eps)` times a weight, which is a single row: operands `x` and weight.
pub fn rms_norm(of: Rows, eps: f64) -> RowKernel {
    fn typed<T: Float>(of: Rows, eps: f64) -> RowKernel {
        affine(of, move |[x, weight], out, mode| {
            forward::rms_norm::<T>(x, weight, out, eps, mode);
        })
    }
    on_float!(of.dtype, typed(of, eps))
}

/// Mean cross entropy of logits with labels: operands logits and labels.
///
/// The results are the mean loss, the loss of each row and, if `with_gradient`, the result of
/// [`cross_entropy_grad`].
pub fn cross_entropy(of: Rows, with_gradient: bool) -> RowKernel {
    on_float!(of.dtype, cross_entropy_of(of, with_gradient))
}

fn cross_entropy_of<T: Float>(of: Rows, with_gradient: bool) -> RowKernel {
    let classes = of.cols;
    let mut widths = vec![None, Some(1)];
    if with_gradient {
        widths.push(Some(classes));
    }
    let kernel = RowKernel::new(
        of.n_rows,
        [Some(classes), Some(1)],
        widths,
        move |args, outs, mode| {
            let (losses, others) = outs[1..]
                .split_first_mut()
                .expect("the result at index 1 holds the losses of the rows");
            let gradient = others.first_mut().map_or(&mut [][..], T::slice_mut);
            let losses = T::slice_mut(losses);
            forward::losses(T::slice(args[0]), args[1], losses, gradient, classes, mode);
        },
    );
    kernel
        .checked(1, move |labels| forward::check_labels(labels, classes))
        .then(|outs| {
            let (loss, others) = outs
                .split_first_mut()
                .expect("the result at index 0 is the mean loss");
            T::slice_mut(loss)[0] = forward::mean_loss::<T>(T::slice_mut(&mut others[0]));
        })
}

/// `softmax(x)` minus 1 at the label of each row: operands logits and labels.
pub fn cross_entropy_grad(of: Rows) -> RowKernel {
    on_float!(of.dtype, cross_entropy_grad_of(of))
}

fn cross_entropy_grad_of<T: Float>(of: Rows) -> RowKernel {
    let classes = of.cols;
    let widths = [Some(classes), Some(1)];
    let kernel = RowKernel::new(
        of.n_rows,
        widths,
        [Some(classes)],
        move |args, outs, mode| {
            let out = T::slice_mut(&mut outs[0]);
            let mode = RowMode {
                non_temporal: false,
                ..mode
            };
            forward::cross_entropy_grad(T::slice(args[0]), args[1], out, classes, mode);
        },
    );
    kernel.checked(1, move |labels| forward::check_labels(labels, classes))
}

/// 1 at the label of each row and 0 elsewhere: the operand holds the labels. If `checked`, it fails if a
/// label is not a class.
pub fn one_hot(dtype: DType, classes: usize, checked: bool) -> Prepared {
    fn typed<T: Element>(classes: usize, checked: bool, one: T) -> Prepared {
        Box::new(move |args, outs| {
            if checked {
                forward::check_labels(args[0], classes)?;
            }
            forward::one_hot(args[0], T::slice_mut(&mut outs[0]), classes, one);
            Ok(())
        })
    }
    fn number<T: Number>(classes: usize, checked: bool) -> Prepared {
        typed(classes, checked, T::ONE)
    }
    match dtype {
        DType::Bool => typed(classes, checked, true),
        dtype => on_number!(dtype, number(classes, checked)),
    }
}
