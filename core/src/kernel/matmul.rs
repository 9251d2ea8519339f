//! The matrix product and its two transposes, with NumPy's meaning for vectors and for batches.
//!
//! All three are one contraction: `out[b, i, j] = sum over p of a[b, i, p] * c[b, p, j]`, where an operand may be
//! repeated along an axis of the batch `b`, and `out` may be summed over one.

use super::KernelFault;
use super::gemm::{Gemm, Matrix};
use crate::buffer::{View, reserve};
use crate::layout::{Layout, numel};

/// Which of the three operands of a product is the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Product {
    /// `z = x y`.
    Plain,
    /// `x = z yᵀ`, from the shapes of `x` and `y`.
    Left,
    /// `y = xᵀ z`, from the shapes of `x` and `y`.
    Right,
}

/// Where the axes of a factor or a result lie: the batch, then two of a matrix. A vector has a unit axis beside its
/// only one.
fn matrices(view: &View, vector: bool, unit_last: bool) -> View {
    if !vector {
        return view.clone();
    }
    let mut layout = view.layout.clone();
    let at = if unit_last {
        layout.shape.len()
    } else {
        layout.shape.len() - 1
    };
    let insert =
        |list: &[usize], x: usize| [&list[..at], &[x], &list[at..]].concat().into_boxed_slice();
    layout.shape = insert(&layout.shape, 1);
    layout.strides = insert(&layout.strides, 0);
    view.with(layout)
}

fn transposed(view: &View) -> View {
    let rank = view.rank();
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(rank - 2, rank - 1);
    view.permute(&axes)
}

/// The product of `a` and `b`: `x y`, `z yᵀ` or `xᵀ z`. `x_rank` and `y_rank` are the ranks of `x` and `y`; `shape`
/// is that of the result.
pub(super) fn product<T: Gemm>(
    product: Product,
    a: &View,
    b: &View,
    [x_rank, y_rank]: [usize; 2],
    shape: &[usize],
) -> Result<View, KernelFault> {
    let (x_vector, y_vector) = (x_rank == 1, y_rank == 1);
    // `x` is a row and `y` a column if it is a vector; `z` lacks the axes that they lack.
    let z = |z: &View| matrices(&matrices(z, y_vector, true), x_vector, false);
    let (a, b) = match product {
        Product::Plain => (matrices(a, x_vector, false), matrices(b, y_vector, true)),
        Product::Left => (z(a), transposed(&matrices(b, y_vector, true))),
        Product::Right => (transposed(&matrices(a, x_vector, false)), z(b)),
    };
    // The result in the same way: a view of nothing that has its shape.
    let out = View::splat(T::ZERO, &[]).with(Layout::contiguous(shape));
    let out = match product {
        Product::Plain => z(&out),
        Product::Left => matrices(&out, x_vector, false),
        Product::Right => matrices(&out, y_vector, true),
    };
    let data = contract::<T>(&a, &b, &out.layout)?;
    Ok(View::new(data, shape))
}

/// One axis of the batch: its length and its strides in `a`, `b` and `out`.
type BatchAxis = (usize, [usize; 3]);

fn contract<T: Gemm>(a: &View, b: &View, out: &Layout) -> Result<Vec<T>, KernelFault> {
    let n_out = out.numel();
    let mut data = reserve::<T>(n_out)?;
    data.resize(n_out, T::ZERO);
    let batch_of = |l: &Layout| l.shape[..l.shape.len() - 2].to_vec();
    let batch = join(
        &join(&batch_of(&a.layout), &batch_of(&b.layout)),
        &batch_of(out),
    );
    let (m, n) = (
        out.shape[out.shape.len() - 2],
        out.shape[out.shape.len() - 1],
    );
    let k = a.shape()[a.rank() - 1];
    if n_out == 0 || k == 0 || numel(&batch) == 0 {
        return Ok(data);
    }
    // A batch that the result is summed over, and that neither operand is repeated along, is a longer `k`. This is
    // decided from the shapes, so that strides do not change the order of the sum.
    let whole = |l: &Layout| batch_of(l) == batch;
    let (mut a, mut b) = (a.clone(), b.clone());
    let mut k = k;
    if !batch.is_empty() && numel(&batch_of(out)) == 1 && whole(&a.layout) && whole(&b.layout) {
        let rank = batch.len() + 2;
        let order = |last: [usize; 2]| (0..rank - 2).chain(last).collect::<Vec<_>>();
        let total = numel(&batch) * k;
        a = a
            .permute(&order([rank - 1, rank - 2]))
            .reshape(&[total, m])?
            .permute(&[1, 0]);
        b = b.reshape(&[total, n])?;
        k = total;
    }
    let batch = if k == a.shape()[a.rank() - 1] && a.rank() == 2 && b.rank() == 2 {
        Vec::new()
    } else {
        batch
    };
    let strided = |l: &Layout| {
        let mut full = batch.clone();
        full.extend_from_slice(&l.shape[l.shape.len() - 2..]);
        l.broadcast_to(&full)
    };
    let out = match batch.is_empty() {
        true => Layout {
            offset: 0,
            shape: [m, n].into(),
            strides: out.strides[out.strides.len() - 2..].into(),
        },
        false => strided(out),
    };
    let (la, lb) = (strided(&a.layout), strided(&b.layout));
    let mut axes: Vec<BatchAxis> = (0..batch.len())
        .map(|i| (batch[i], [la.strides[i], lb.strides[i], out.strides[i]]))
        .collect();
    axes.retain(|(len, _)| *len != 1);
    let r = batch.len();
    let of = |l: &Layout| Matrix {
        offset: l.offset,
        rows: l.strides[r],
        cols: l.strides[r + 1],
    };
    let (mut ma, mut mb, mut mo) = (of(&la), of(&lb), of(&out));
    let mut m = m;
    // A batch of rows against one shared matrix is one taller matrix, where the rows are evenly spaced.
    if m == 1 {
        // The spacing of one row says nothing; that of the batch does.
        if let Some((_, [sa, 0, so])) = axes.last().copied()
            && so != 0
        {
            (ma.rows, mo.rows) = (sa, so);
        }
    }
    while let Some(&(len, [sa, 0, so])) = axes.last()
        && sa == m * ma.rows
        && so == m * mo.rows
        && so != 0
    {
        m *= len;
        axes.pop();
    }
    if n == 1 {
        mo.cols = mo.cols.max(1);
    }
    if m == 1 {
        mo.rows = mo.rows.max(1);
    }
    let accumulate = axes.iter().any(|(_, strides)| strides[2] == 0);
    let (xs, ys) = (a.data::<T>(), b.data::<T>());
    let mut index = vec![0; axes.len()];
    loop {
        T::gemm([m, k, n], (xs, ma), (ys, mb), (&mut data, mo), accumulate);
        let mut axis = axes.len();
        loop {
            let Some(next) = axis.checked_sub(1) else {
                return Ok(data);
            };
            axis = next;
            let (len, [sa, sb, so]) = axes[axis];
            index[axis] += 1;
            (ma.offset, mb.offset, mo.offset) = (ma.offset + sa, mb.offset + sb, mo.offset + so);
            if index[axis] < len {
                break;
            }
            index[axis] = 0;
            ma.offset -= len * sa;
            mb.offset -= len * sb;
            mo.offset -= len * so;
        }
    }
}

/// The shape that both broadcast to.
fn join(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let at = |s: &[usize], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
    (0..rank)
        .map(|i| if at(a, i) == 1 { at(b, i) } else { at(a, i) })
        .collect()
}
