//! Ops that only move elements. Most return a view of their operand.

use super::statics::{axis, ints, permutation};
use crate::Aval;
use crate::backend::{TaskBuilder, View};
use gradloom_ir::Static;
use gradloom_kernels::memory::{Layout, numel};
use gradloom_kernels::movement;

pub(super) fn transpose(x: &View) -> View {
    let axes: Vec<usize> = (0..x.rank()).rev().collect();
    x.permute(&axes)
}

pub(super) fn permute(x: &View, axes: &Static) -> View {
    x.permute(&permutation(axes, x.rank()))
}

pub(super) fn permute_t(x: &View, axes: &Static) -> View {
    let mut inverse = vec![0; x.rank()];
    for (i, axis) in permutation(axes, x.rank()).into_iter().enumerate() {
        inverse[axis] = i;
    }
    x.permute(&inverse)
}

pub(super) fn swap_axes(x: &View, a: &Static, b: &Static) -> View {
    let mut axes: Vec<usize> = (0..x.rank()).collect();
    axes.swap(axis(a, x.rank()), axis(b, x.rank()));
    x.permute(&axes)
}

pub(super) fn moveaxis(x: &View, from: &Static, to: &Static) -> View {
    let mut axes: Vec<usize> = (0..x.rank()).collect();
    let moved = axes.remove(axis(from, x.rank()));
    axes.insert(axis(to, x.rank()), moved);
    x.permute(&axes)
}

/// Narrows each axis to the elements that `starts` and `steps` select; `shape` is the shape of the
/// result.
fn select(layout: &Layout, starts: &Static, steps: &Static, shape: &[usize]) -> Layout {
    let entries = ints(starts).iter().zip(ints(steps));
    let mut part = layout.clone();
    for (axis, (&start, &step)) in entries.enumerate() {
        let from_left = match start < 0 {
            true => start + layout.shape[axis] as i64,
            false => start,
        };
        part = part.narrow(axis, from_left as usize, shape[axis], step as usize);
    }
    part
}

pub(super) fn slice(x: &View, starts: &Static, steps: &Static, shape: &[usize]) -> View {
    x.with(select(&x.layout, starts, steps, shape))
}

/// Returns the layout of the selected part of a row-major tensor of shape `whole`.
fn part(whole: &[usize], starts: &Static, steps: &Static, shape: &[usize]) -> Layout {
    select(&Layout::contiguous(whole), starts, steps, shape)
}

/// Returns the parts along `axis` with the given lengths.
pub(super) fn split(x: &View, axis: usize, lens: impl Iterator<Item = usize>) -> Vec<View> {
    let mut start = 0;
    lens.map(|len| {
        let part = x.narrow(axis, start, len);
        start += len;
        part
    })
    .collect()
}

pub(super) fn unbind(x: &View, axis: usize) -> Vec<View> {
    (0..x.shape()[axis])
        .map(|i| x.with(x.layout.take(axis, i)))
        .collect()
}

/// Writes `y` to the selected part of a tensor of zeros: the transpose of `slice`.
pub(super) fn slice_t(
    b: &mut TaskBuilder,
    y: &View,
    starts: &Static,
    steps: &Static,
    out: &Aval,
) -> View {
    let to = part(out.shape(), starts, steps, y.shape());
    let y = b.contiguous(y);
    b.kernel(&[&y], out, movement::scatter(out.dtype(), &to))
}

pub(super) fn tril(b: &mut TaskBuilder, x: &View) -> View {
    let x = b.contiguous(x);
    let out = Aval::new(x.dtype(), x.shape());
    let sizes = [2, 1].map(|from_end| x.shape()[x.rank() - from_end]);
    b.kernel(&[&x], &out, movement::tril(x.dtype(), sizes))
}

pub(super) fn concat(b: &mut TaskBuilder, args: &[View], axis: usize, out: &Aval) -> View {
    let args: Vec<View> = args.iter().map(|x| b.contiguous(x)).collect();
    let pieces = args.iter().map(|x| numel(&x.shape()[axis..])).collect();
    let refs: Vec<&View> = args.iter().collect();
    b.kernel(&refs, out, movement::concat(out.dtype(), pieces))
}

pub(super) fn stack(b: &mut TaskBuilder, args: &[View], axis: usize, out: &Aval) -> View {
    let mut unit = out.shape().to_vec();
    unit[axis] = 1;
    let args: Vec<View> = args.iter().map(|x| b.reshape(x, &unit)).collect();
    concat(b, &args, axis, out)
}
