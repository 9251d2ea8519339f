//! Lowering of the matrix product and its two transposes, with NumPy's rules for vectors and
//! batches.
//!
//! All three are one contraction: `out[b, i, j] = sum over p of a[b, i, p] * c[b, p, j]`. An
//! operand may be broadcast along an axis of the batch `b`, and `out` may be summed over one.

use super::Equation;
use crate::Aval;
use crate::backend::{TaskBuilder, View};
use gradloom_kernels::gemm::{self, Batch, BatchAxis, Matrix};
use gradloom_kernels::memory::{Layout, numel};
use gradloom_kernels::movement;
use std::sync::Arc;

/// The three products: which of `x`, `y` and `z` in `z = x y` is the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Product {
    /// `z = x y`.
    Plain,
    /// `x = z yᵀ`, with the shapes of `x` and `y` given.
    Left,
    /// `y = xᵀ z`, with the shapes of `x` and `y` given.
    Right,
}

pub(super) fn matmul(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    lower_product(b, of, Product::Plain)
}

pub(super) fn matmul_lhs_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    lower_product(b, of, Product::Left)
}

pub(super) fn matmul_rhs_t(b: &mut TaskBuilder, of: &Equation<'_>) -> View {
    lower_product(b, of, Product::Right)
}

/// Views a vector as a matrix with a unit axis; a matrix or batch is returned as it is.
fn matrices(x: &View, vector: bool, unit_last: bool) -> View {
    if !vector {
        return x.clone();
    }
    let at = if unit_last { x.rank() } else { x.rank() - 1 };
    let insert = |list: &[usize], x: usize| [&list[..at], &[x], &list[at..]].concat().into();
    x.with(Layout {
        offset: x.layout.offset,
        shape: insert(&x.layout.shape, 1),
        strides: insert(&x.layout.strides, 0),
    })
}

fn transposed(x: &View) -> View {
    let rank = x.rank();
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(rank - 2, rank - 1);
    x.permute(&axes)
}

/// Lowers the product of `a` and `b`: `x y`, `z yᵀ` or `xᵀ z`. The like operands are `x` and `y`.
fn lower_product(build: &mut TaskBuilder, of: &Equation<'_>, product: Product) -> View {
    let (a, b, out) = (of.x(), of.y(), of.out());
    let [x_vector, y_vector] = [0, 1].map(|i| of.likes[i].shape().len() == 1);
    // A vector `x` is a row and a vector `y` a column; `z` lacks their unit axes.
    let z = |z: &View| matrices(&matrices(z, y_vector, true), x_vector, false);
    let (left, right) = match product {
        Product::Plain => (matrices(a, x_vector, false), matrices(b, y_vector, true)),
        Product::Left => (z(a), transposed(&matrices(b, y_vector, true))),
        Product::Right => (transposed(&matrices(a, x_vector, false)), z(b)),
    };
    let to = a.with(Layout::contiguous(out.shape()));
    let to = match product {
        Product::Plain => z(&to),
        Product::Left => matrices(&to, x_vector, false),
        Product::Right => matrices(&to, y_vector, true),
    };
    let is_stored = |x: &View| x.dtype() != out.dtype();
    if is_stored(&left) || is_stored(&right) {
        return stored(build, out, left, right, &to.layout);
    }
    let (left, right, batch) = contract(build, left, right, &to.layout);
    let Some(batch) = batch else {
        return build.kernel(&[], out, movement::zeros(out.dtype()));
    };
    let batch = Arc::new(batch);
    let dense = batch.is_dense().then(|| batch.clone());
    let kernel = gemm::product(out.dtype(), batch);
    build.product(&[&left, &right], out, kernel, dense)
}

/// Lowers a product of which an operand is stored in a smaller dtype, see [`read_stored`](gradloom_ir::pass::read_stored).
fn stored(build: &mut TaskBuilder, out: &Aval, left: View, right: View, to: &Layout) -> View {
    let is_left = left.dtype() != out.dtype();
    let (left, right, batch) = contract(build, left, right, to);
    let Some(batch) = batch else {
        return build.kernel(&[], out, movement::zeros(out.dtype()));
    };
    if batch.axes.is_empty() && batch.summed.is_empty() {
        let dtype = if is_left { left.dtype() } else { right.dtype() };
        let kernel = gemm::product_of_stored(dtype, Arc::new(batch), is_left);
        return build.product(&[&left, &right], out, kernel, None);
    }
    // The rows are not evenly spaced, so they make several products.
    let [left, right] = [left, right].map(|x| match x.dtype() == out.dtype() {
        true => x,
        false => {
            let x = build.contiguous(&x);
            let wide = Aval::new(out.dtype(), x.shape());
            build.kernel(&[&x], &wide, movement::cast::widen(x.dtype()))
        }
    });
    let (left, right, batch) = contract(build, left, right, to);
    let batch = batch.expect("the same product has elements");
    let kernel = gemm::product(out.dtype(), Arc::new(batch));
    build.product(&[&left, &right], out, kernel, None)
}

/// Resolves the contraction of `a` and `b`, or of copies of them, to a result laid out as `out`.
///
/// The batch is `None` if the result is a sum over no elements, or has none.
fn contract(
    build: &mut TaskBuilder,
    a: View,
    b: View,
    out: &Layout,
) -> (View, View, Option<Batch>) {
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
    let empty = out.numel() == 0 || k == 0 || numel(&batch) == 0;
    if empty {
        return (a, b, None);
    }
    // A batch axis that the result is summed over, and along which no operand is broadcast, extends
    // `k`. The decision depends on shapes alone, so that strides do not change the order of the
    // sum.
    let whole = batch_of(&a.layout) == batch && batch_of(&b.layout) == batch;
    let (mut a, mut b, mut k, mut batch) = (a, b, k, batch);
    if !batch.is_empty() && numel(&batch_of(out)) == 1 && whole {
        let rank = batch.len() + 2;
        let order: Vec<usize> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
        k *= numel(&batch);
        a = build.reshape(&a.permute(&order), &[k, m]).permute(&[1, 0]);
        b = build.reshape(&b, &[k, n]);
        batch = Vec::new();
    }
    let strided = |l: &Layout| {
        let mut full = batch.clone();
        full.extend_from_slice(&l.shape[l.shape.len() - 2..]);
        l.broadcast_to(&full)
    };
    let out = match batch.is_empty() {
        true => Layout {
            offset: 0,
            shape: (&[m, n][..]).into(),
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
    let (mut ma, mb, mut mo) = (of(&la), of(&lb), of(&out));
    // This depends on shapes alone, too, because it changes the order of sums.
    let single = Batch::is_single([m * numel(&batch), k, n]);
    let mut m = m;
    // A batch of rows times one shared matrix is a taller matrix, if the rows are evenly spaced.
    if m == 1 {
        // The stride of a single row is arbitrary, so that of the batch is used.
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
    let (summed, axes) = axes.into_iter().partition(|(_, strides)| strides[2] == 0);
    let batch = Batch {
        mkn: [m, k, n],
        a: ma,
        b: mb,
        out: mo,
        axes,
        summed,
        single,
    };
    (a, b, Some(batch))
}

/// Returns the shape that both broadcast to.
fn join(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let at = |s: &[usize], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
    (0..rank)
        .map(|i| if at(a, i) == 1 { at(b, i) } else { at(a, i) })
        .collect()
}
