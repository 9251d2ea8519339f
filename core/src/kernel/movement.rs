//! Ops that only move elements. Most return a view of their operand.

use super::data::Data;
use crate::dtype::Element;
use crate::layout::Layout;
use crate::plan::Place;
use gradloom_ir::Static;
use gradloom_ir::op::shape;

const CHECKED: &str = "the shape rule checks the static arguments";

pub(super) fn int(value: &Static) -> i64 {
    value.int().expect(CHECKED)
}

fn axis_of(axis: i64, rank: usize) -> usize {
    shape::axis(axis, rank).expect(CHECKED)
}

/// Returns the axis that a static argument names.
pub(super) fn axis(value: &Static, rank: usize) -> usize {
    axis_of(int(value), rank)
}

/// Returns the axes that a static argument names, ascending.
pub(super) fn axes(value: &Static, rank: usize) -> Vec<usize> {
    shape::axes(value, rank, "axes")
        .expect(CHECKED)
        .expect(CHECKED)
}

pub(super) fn transpose(x: &Place) -> Place {
    let axes: Vec<usize> = (0..x.rank()).rev().collect();
    x.permute(&axes)
}

fn permutation(axes: &Static, rank: usize) -> Vec<usize> {
    axes.ints()
        .expect(CHECKED)
        .iter()
        .map(|&a| axis_of(a, rank))
        .collect()
}

pub(super) fn permute(x: &Place, axes: &Static) -> Place {
    x.permute(&permutation(axes, x.rank()))
}

pub(super) fn permute_t(x: &Place, axes: &Static) -> Place {
    let mut inverse = vec![0; x.rank()];
    for (i, axis) in permutation(axes, x.rank()).into_iter().enumerate() {
        inverse[axis] = i;
    }
    x.permute(&inverse)
}

pub(super) fn swap_axes(x: &Place, a: &Static, b: &Static) -> Place {
    let mut axes: Vec<usize> = (0..x.rank()).collect();
    axes.swap(axis(a, x.rank()), axis(b, x.rank()));
    x.permute(&axes)
}

pub(super) fn moveaxis(x: &Place, from: &Static, to: &Static) -> Place {
    let mut axes: Vec<usize> = (0..x.rank()).collect();
    let moved = axes.remove(axis(from, x.rank()));
    axes.insert(axis(to, x.rank()), moved);
    x.permute(&axes)
}

/// Narrows each axis to the elements that `starts` and `steps` select; `shape` is the shape of the
/// result.
fn select(layout: &Layout, starts: &Static, steps: &Static, shape: &[usize]) -> Layout {
    let starts = starts.ints().expect(CHECKED);
    let entries = starts.iter().zip(steps.ints().expect(CHECKED));
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

pub(super) fn slice(x: &Place, starts: &Static, steps: &Static, shape: &[usize]) -> Place {
    x.with(select(&x.layout, starts, steps, shape))
}

/// Returns the layout of the selected part of a row-major tensor of shape `whole`.
pub(super) fn part(whole: &[usize], starts: &Static, steps: &Static, shape: &[usize]) -> Layout {
    select(&Layout::contiguous(whole), starts, steps, shape)
}

/// Concatenates: takes `pieces[i]` elements of each operand in turn.
pub(super) fn concat<T: Element>(args: &[Data<'_>], pieces: &[usize], out: &mut [T]) {
    let mut at = 0;
    for i in 0.. {
        for (arg, &n) in args.iter().zip(pieces) {
            if at == out.len() {
                return;
            }
            out[at..at + n].copy_from_slice(&T::slice(*arg)[i * n..(i + 1) * n]);
            at += n;
        }
    }
}

/// Copies matrices and writes 0 above their diagonals.
pub(super) fn tril<T: Element>(xs: &[T], out: &mut [T], rows: usize, cols: usize) {
    if cols == 0 {
        return;
    }
    let both = xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols));
    for (i, (x, y)) in both.enumerate() {
        let n = cols.min(i % rows + 1);
        y[..n].copy_from_slice(&x[..n]);
        y[n..].fill(T::default());
    }
}

/// Returns the parts along `axis` with the given lengths.
pub(super) fn split(x: &Place, axis: usize, lens: impl Iterator<Item = usize>) -> Vec<Place> {
    let mut start = 0;
    lens.map(|len| {
        let part = x.narrow(axis, start, len);
        start += len;
        part
    })
    .collect()
}

pub(super) fn unbind(x: &Place, axis: usize) -> Vec<Place> {
    (0..x.shape()[axis])
        .map(|i| x.with(x.layout.take(axis, i)))
        .collect()
}
