//! Kernels that only move elements.

mod copy;
pub mod gather;

use crate::memory::{Data, Element, Layout};
use crate::task::{Prepared, map};
use copy::{Copy, Scatter};
use gradloom_ir::{DType, Static};

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
    let copy = strided.then(|| Copy::new(layout));
    on_element!(dtype, typed(copy))
}

/// Returns whether reading the layout in row-major order jumps between cache lines.
pub fn jumps(layout: &Layout) -> bool {
    !layout.is_contiguous() && matches!(Copy::new(layout), Copy::Tiles(_))
}

/// Writes the operand to the elements that `to` selects of a tensor of zeros.
pub fn scatter(dtype: DType, to: &Layout) -> Prepared {
    fn typed<T: Element>(scatter: Scatter) -> Prepared {
        map(move |ys: &[T], out: &mut [T]| {
            out.fill(T::default());
            scatter.run(ys, out);
        })
    }
    on_element!(dtype, typed(Scatter::new(to)))
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

/// Copies matrices and writes 0 above their diagonals.
pub fn tril(dtype: DType, [rows, cols]: [usize; 2]) -> Prepared {
    fn typed<T: Element>(rows: usize, cols: usize) -> Prepared {
        map(move |xs: &[T], out: &mut [T]| tril_slices(xs, out, rows, cols))
    }
    on_element!(dtype, typed(rows, cols))
}

fn tril_slices<T: Element>(xs: &[T], out: &mut [T], rows: usize, cols: usize) {
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
