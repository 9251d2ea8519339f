//! Many small matrices, and a loop with a small body, each beside a plain loop: W16.

use super::inputs::{fill, weight};
use super::measure::Timer;
use gradloom::prelude::*;
use gradloom::{scan, vmap};

/// Number of matrices.
const MANY: usize = 8192;
/// Rows and columns of a matrix.
const SIDE: usize = 8;
/// Turns of a recurrent network, its batch, and its features.
const TURNS: usize = 256;
const BATCH: usize = 4;
const FEATURES: usize = 16;

/// Computes `out += a b` for `a` with rows of `n` elements, and `b` with rows of `m`.
fn product(a: &[f32], b: &[f32], out: &mut [f32], [n, m]: [usize; 2]) {
    for (out, a) in out.chunks_exact_mut(m).zip(a.chunks_exact(n)) {
        for (a, b) in a.iter().zip(b.chunks_exact(m)) {
            out.iter_mut().zip(b).for_each(|(y, b)| *y += a * b);
        }
    }
}

/// Computes the Cholesky factor of a matrix.
fn cholesky(a: &[f32], l: &mut [f32]) {
    l.fill(0.0);
    for i in 0..SIDE {
        for j in 0..=i {
            let mut sum = a[i * SIDE + j];
            for k in 0..j {
                sum -= l[i * SIDE + k] * l[j * SIDE + k];
            }
            l[i * SIDE + j] = match i == j {
                true => sum.sqrt(),
                false => sum / l[j * SIDE + j],
            };
        }
    }
}

/// Solves `a x = y` in place by elimination with row pivoting.
fn solve(a: &mut [f32], x: &mut [f32]) {
    for k in 0..SIDE {
        let size = |i: &usize| a[i * SIDE + k].abs();
        let pivot = (k..SIDE)
            .max_by(|i, j| size(i).total_cmp(&size(j)))
            .unwrap_or(k);
        if pivot != k {
            x.swap(pivot, k);
            for j in 0..SIDE {
                a.swap(pivot * SIDE + j, k * SIDE + j);
            }
        }
        let (above, below) = a.split_at_mut((k + 1) * SIDE);
        let row = &above[k * SIDE..];
        for (i, below) in below.chunks_exact_mut(SIDE).enumerate() {
            let factor = below[k] / row[k];
            below[k..]
                .iter_mut()
                .zip(&row[k..])
                .for_each(|(y, x)| *y -= factor * x);
            x[k + 1 + i] -= factor * x[k];
        }
    }
    for k in (0..SIDE).rev() {
        let known: f32 = (k + 1..SIDE).map(|j| a[k * SIDE + j] * x[j]).sum();
        x[k] = (x[k] - known) / a[k * SIDE + k];
    }
}

/// Times each operation and a loop that writes the same numbers into kept memory: W16.
pub(super) fn operations(timer: &mut Timer) -> Result<()> {
    let (x, y) = (
        fill(170, [MANY, SIDE, SIDE], 1.0),
        fill(171, [MANY, SIDE, SIDE], 1.0),
    );
    let [xs, ys] = [&x, &y].map(|x| x.to_vec::<f32>());
    let products = vmap(|(x, y): &(Tensor, Tensor)| x.matmul(y));
    let both = (x.clone(), y.clone());
    let size = SIDE * SIDE;
    timer.beside(
        "W16_vmap_matmul",
        || products(&both),
        |out| {
            out.fill(0.0);
            let pairs = xs.chunks_exact(size).zip(ys.chunks_exact(size));
            for (out, (x, y)) in out.chunks_exact_mut(size).zip(pairs) {
                product(x, y, out, [SIDE, SIDE]);
            }
        },
    )?;
    let vectors = fill(172, [MANY, SIDE], 1.0);
    let vs = vectors.to_vec::<f32>();
    let products = vmap(|(x, v): &(Tensor, Tensor)| x.matmul(v));
    let both = (x.clone(), vectors.clone());
    timer.beside(
        "W16_vmap_matvec",
        || products(&both),
        |out| {
            let pairs = xs.chunks_exact(size).zip(vs.chunks_exact(SIDE));
            for (out, (x, v)) in out.chunks_exact_mut(SIDE).zip(pairs) {
                for (y, row) in out.iter_mut().zip(x.chunks_exact(SIDE)) {
                    *y = row.iter().zip(v).map(|(x, v)| x * v).sum();
                }
            }
        },
    )?;
    let positive = x.matmul(x.swap_axes(1, 2)) + Tensor::eye(SIDE, DType::F32);
    evaluate(&positive)?;
    let ps = positive.to_vec::<f32>();
    timer.beside(
        "W16_cholesky",
        || positive.cholesky(),
        |out| {
            let each = out.chunks_exact_mut(size).zip(ps.chunks_exact(size));
            each.for_each(|(out, p)| cholesky(p, out));
        },
    )?;
    let right = vectors.reshape([MANY, SIDE, 1]);
    evaluate(&right)?;
    timer.beside(
        "W16_solve",
        || positive.solve(&right),
        |out| {
            let mut matrix = [0.0; SIDE * SIDE];
            out.copy_from_slice(&vs);
            for (x, p) in out.chunks_exact_mut(SIDE).zip(ps.chunks_exact(size)) {
                matrix.copy_from_slice(p);
                solve(&mut matrix, x);
            }
        },
    )?;
    let (xs, w) = (
        fill(173, [TURNS, BATCH, FEATURES], 1.0),
        weight(174, FEATURES, FEATURES),
    );
    let zeros = Tensor::zeros([BATCH, FEATURES], DType::F32);
    let [steps, ws] = [&xs, &w].map(|x| x.to_vec::<f32>());
    timer.beside(
        "W16_scan",
        || {
            scan(
                |h: &Tensor, x: &Tensor| ((h.matmul(&w) + x).tanh(), ()),
                &zeros,
                &xs,
            )
            .0
        },
        |out| {
            let mut next = [0.0; BATCH * FEATURES];
            out.fill(0.0);
            for x in steps.chunks_exact(BATCH * FEATURES) {
                next.copy_from_slice(x);
                product(out, &ws, &mut next, [FEATURES, FEATURES]);
                out.iter_mut().zip(next).for_each(|(h, x)| *h = x.tanh());
            }
        },
    )
}
