//! Kernels that only move elements.

pub(crate) mod blocks;
pub mod cast;
pub(crate) mod copy;
pub mod gather;
mod window;
pub(crate) mod write;

use crate::memory::{Data, Element, Layout};
use crate::task::{Prepared, map};
use blocks::Blocks;
use copy::{Copy, Scatter};
use gather::Gather;
use gradloom_ir::{DType, Static};
use std::ops::Range;

pub use window::{read_window, write_slice, write_window};
pub use write::Write;

/// Copies elements laid out as `layout` into row-major order.
///
/// If the layout is already contiguous, the operand slice must have exactly its elements.
pub fn copy(dtype: DType, layout: &Layout) -> Prepared {
    fn typed<T: Element>(copy: Option<Copy>) -> Prepared {
        map(move |xs: &[T], out: &mut [T]| match &copy {
            Some(copy) => copy.run(xs, out),
            None => out.copy_from_slice(xs),
        })
    }
    let strided = !layout.is_contiguous();
    let copy = strided.then(|| Copy::new(layout, dtype.size()));
    on_element!(dtype, typed(copy))
}

/// Number of elements from which jumps between cache lines cost more than a copy.
const JUMPS: usize = 1024;

/// Number of elements of a row from which finding its place takes less time than copying it.
const LONG_ROW: usize = 32;

/// Returns whether reading the layout in row-major order jumps between cache lines.
pub fn jumps(dtype: DType, layout: &Layout) -> bool {
    layout.numel() >= JUMPS
        && !layout.is_contiguous()
        && Blocks::new(&layout.runs(), dtype.size()).is_some_and(|blocks| blocks.jumps())
}

/// Writes the operand to the elements that `to` selects of a tensor filled with a number.
pub fn scatter_onto(dtype: DType, to: &Layout, value: &Static) -> Prepared {
    fn typed<T: Element>(scatter: Scatter, value: &Static) -> Prepared {
        let value = T::from_static(value);
        let ascends = scatter.is_ascending();
        map(move |ys: &[T], out: &mut [T]| {
            if ascends {
                return scatter.write_rows(out, value, |i, row| {
                    row.copy_from_slice(&ys[i..][..row.len()]);
                });
            }
            out.fill(value);
            scatter.run(ys, out);
        })
    }
    on_element!(dtype, typed(Scatter::new(to), value))
}

/// As [`scatter_onto`], for an operand laid out as `from`.
///
/// Returns `None` if a copy in row-major order would be faster.
pub fn scatter_view(dtype: DType, from: &Layout, to: &Layout, value: &Static) -> Option<Prepared> {
    fn typed<T: Element>(from: Gather, scatter: Scatter, value: &Static) -> Prepared {
        let value = T::from_static(value);
        map(move |xs: &[T], out: &mut [T]| {
            scatter.write_rows(out, value, |i, row| match from.run(i, row.len()) {
                Some(at) => row.copy_from_slice(&xs[at..][..row.len()]),
                None => from.read(xs, i, row),
            });
        })
    }
    let scatter = Scatter::new(to);
    let long = to.shape.last().is_some_and(|len| *len >= LONG_ROW);
    if !long || !scatter.is_ascending() || jumps(dtype, from) {
        return None;
    }
    let from = Gather::new(from);
    Some(on_element!(dtype, typed(from, scatter, value)))
}

/// Concatenates: takes `pieces[i]` elements of operand `i` in turn, until the result is full.
pub fn concat(dtype: DType, pieces: Vec<usize>) -> Prepared {
    fn typed<T: Element>(pieces: Vec<usize>) -> Prepared {
        Box::new(move |args, outs| {
            concat_slices(args, &pieces, T::slice_mut(&mut outs[0]));
            Ok(())
        })
    }
    on_element!(dtype, typed(pieces))
}

fn concat_slices<T: Element>(args: &[Data<'_>], pieces: &[usize], out: &mut [T]) {
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

/// Triangle of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triangle {
    /// The elements on a diagonal and to its left.
    Lower,
    /// The elements on a diagonal and to its right.
    Upper,
}

/// Copies the triangles of matrices, and writes zeros elsewhere.
pub fn triangles(
    dtype: DType,
    [rows, cols]: [usize; 2],
    triangle: Triangle,
    diagonal: i64,
) -> Prepared {
    fn typed<T: Element>(
        kept: impl Fn(usize) -> Range<usize> + Send + Sync + 'static,
        cols: usize,
    ) -> Prepared {
        map(move |xs: &[T], out: &mut [T]| {
            if cols == 0 {
                return;
            }
            let both = xs.chunks_exact(cols).zip(out.chunks_exact_mut(cols));
            for (i, (x, y)) in both.enumerate() {
                let kept = kept(i);
                y[..kept.start].fill(T::default());
                y[kept.end..].fill(T::default());
                y[kept.clone()].copy_from_slice(&x[kept]);
            }
        })
    }
    // The columns of a row that are kept. The first `n` columns are to the left of the diagonal.
    let kept = move |i: usize| {
        let column = diagonal.saturating_add((i % rows) as i64);
        let n = |column: i64| column.clamp(0, cols as i64) as usize;
        match triangle {
            Triangle::Lower => 0..n(column.saturating_add(1)),
            Triangle::Upper => n(column)..cols,
        }
    };
    on_element!(dtype, typed(kept, cols))
}

/// Reverses the middle axis of `[a, r, b]`.
pub fn flip(dtype: DType, [_, r, b]: [usize; 3]) -> Prepared {
    fn typed<T: Element>(r: usize, b: usize) -> Prepared {
        map(move |xs: &[T], out: &mut [T]| {
            if out.is_empty() {
                return;
            }
            let matrices = xs.chunks_exact(r * b).zip(out.chunks_exact_mut(r * b));
            for (xs, out) in matrices {
                if b == 1 {
                    for (y, x) in out.iter_mut().zip(xs.iter().rev()) {
                        *y = *x;
                    }
                } else {
                    for (y, x) in out.chunks_exact_mut(b).zip(xs.chunks_exact(b).rev()) {
                        y.copy_from_slice(x);
                    }
                }
            }
        })
    }
    on_element!(dtype, typed(r, b))
}

/// Rotates each row of `len` elements by `shift` elements, less than `len`, towards its end.
pub fn roll(dtype: DType, len: usize, shift: usize) -> Prepared {
    fn typed<T: Element>(len: usize, shift: usize) -> Prepared {
        map(move |xs: &[T], out: &mut [T]| {
            if out.is_empty() {
                return;
            }
            for (xs, out) in xs.chunks_exact(len).zip(out.chunks_exact_mut(len)) {
                let (start, end) = xs.split_at(len - shift);
                out[..shift].copy_from_slice(end);
                out[shift..].copy_from_slice(start);
            }
        })
    }
    on_element!(dtype, typed(len, shift))
}

/// Writes a square matrix with 1 on its diagonal and 0 elsewhere.
pub fn eye(dtype: DType, len: usize) -> Prepared {
    fn typed<T: Element>(len: usize) -> Prepared {
        Box::new(move |_, outs| {
            let out = T::slice_mut(&mut outs[0]);
            out.fill(T::default());
            for y in out.iter_mut().step_by(len + 1) {
                *y = T::from_static(&Static::Int(1));
            }
            Ok(())
        })
    }
    on_element!(dtype, typed(len))
}

/// Writes the numbers from 0 on.
pub fn iota(dtype: DType) -> Prepared {
    fn typed<T: Element>() -> Prepared {
        Box::new(|_, outs| {
            for (i, y) in T::slice_mut(&mut outs[0]).iter_mut().enumerate() {
                *y = T::from_static(&Static::Int(i as i64));
            }
            Ok(())
        })
    }
    on_element!(dtype, typed())
}

/// Writes zeros.
pub fn zeros(dtype: DType) -> Prepared {
    fn typed<T: Element>() -> Prepared {
        Box::new(|_, outs| {
            T::slice_mut(&mut outs[0]).fill(T::default());
            Ok(())
        })
    }
    on_element!(dtype, typed())
}
