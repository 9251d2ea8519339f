//! Lowering of reductions over axes and of their transposes.

use super::memory::Prepared;
use super::number::Number;
use super::pieces::{CHUNK, Sum};
use super::reduce::{Max, Min, Reduction};
use super::{map, movement, on_number, reduce};
use crate::Aval;
use crate::dtype::Element;
use crate::layout::numel;
use crate::plan::{Build, Place};
use gradloom_ir::{DType, Op, Static};

/// Returns the axes of `large` along which a value of `shape` was broadcast.
pub(super) fn repeated(large: &[usize], shape: &[usize]) -> Vec<usize> {
    let fresh = large.len() - shape.len();
    let repeated = |&axis: &usize| axis < fresh || shape[axis - fresh] != large[axis];
    (0..large.len()).filter(repeated).collect()
}

/// Reduces `axes`, one group of adjacent axes at a time, the last one first.
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

/// Returns whether [`fused_sum`] supports the op.
pub(crate) fn is_sum(op: Op) -> bool {
    matches!(op, Op::Sum | Op::Unbroadcast)
}

/// Returns how a group of `shape` can sum its results while they are in the cache.
///
/// Supports sums over all elements, over the last axes and over the first axes; `None` otherwise.
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

/// Returns the kernel that adds up the totals that a group has written.
pub(crate) fn join(dtype: DType) -> Prepared {
    fn of<T: Number>() -> Prepared {
        Box::new(|_, outs| {
            let [totals, out] = outs else {
                unreachable!("the kernel writes the totals and their sum")
            };
            reduce::join(T::slice_mut(totals), T::slice_mut(out));
            Ok(())
        })
    }
    on_number!(dtype, of())
}

/// Merges adjacent axes that are all reduced or all kept. Each entry is a length and whether it is
/// reduced.
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

/// Bound of closures that a prepared kernel owns.
trait Copyable: std::marker::Copy + Send + Sync + 'static {}
impl<F: std::marker::Copy + Send + Sync + 'static> Copyable for F {}

pub(super) fn sum<T: Number>(b: &mut Build, x: &Place, axes: &[usize], out: &Aval) -> Place {
    fold::<T>(b, x, axes, out, reduce::Sum)
}

/// Divides each element by `n`.
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

pub(super) fn mean<T: Number>(b: &mut Build, x: &Place, axes: &[usize], out: &Aval) -> Place {
    let n = axes.iter().map(|&a| x.shape()[a]).product();
    let total = sum::<T>(b, x, axes, out);
    over::<T>(b, &total, n)
}

/// Broadcasts `y`, a value reduced over `axes`, along them to `shape`.
pub(super) fn sum_t(b: &mut Build, y: &Place, axes: &Static, shape: &[usize]) -> Place {
    let reduced = movement::axes(axes, shape.len());
    let unit = |(axis, &len): (usize, &usize)| if reduced.contains(&axis) { 1 } else { len };
    let kept: Vec<usize> = shape.iter().enumerate().map(unit).collect();
    b.reshape(y, &kept).broadcast_to(shape)
}

pub(super) fn mean_t<T: Number>(b: &mut Build, y: &Place, axes: &Static, shape: &[usize]) -> Place {
    let reduced = movement::axes(axes, shape.len());
    let n = reduced.iter().map(|&a| shape[a]).product();
    let part = over::<T>(b, y, n);
    sum_t(b, &part, axes, shape)
}

pub(super) fn max<T: Number>(b: &mut Build, x: &Place, axes: &[usize], out: &Aval) -> Place {
    fold::<T>(b, x, axes, out, Max)
}

pub(super) fn min<T: Number>(b: &mut Build, x: &Place, axes: &[usize], out: &Aval) -> Place {
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

pub(super) fn argmax<T: Number>(b: &mut Build, x: &Place, axis: usize, out: &Aval) -> Place {
    arg_extremum(b, x, axis, out, T::above, Max)
}

pub(super) fn argmin<T: Number>(b: &mut Build, x: &Place, axis: usize, out: &Aval) -> Place {
    arg_extremum(b, x, axis, out, T::below, Min)
}
