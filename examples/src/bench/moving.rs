//! Operations that move elements and add them up in places, each beside a plain loop: W13.

use super::inputs::fill;
use super::measure::Timer;
use gradloom::RangeStep;
use gradloom::prelude::*;

/// Rows of a table, and columns.
const TABLE: [usize; 2] = [10_000, 128];
/// Number of indices of rows of the table.
const ROWS: usize = 20_000;
/// Rows and columns of a matrix.
const N: usize = 1024;

/// Returns `n` indices below `below`, in no order.
fn places(n: usize, below: usize) -> Vec<i64> {
    let place = |i: usize| ((i as u64 * 2_654_435_761) % below as u64) as i64;
    (0..n).map(place).collect()
}

/// Adds rows of `to` and `from`, at the places in `to`.
fn add_rows(to: &mut [f32], from: &[f32], places: &[i64], cols: usize) {
    for (row, i) in from.chunks_exact(cols).zip(places) {
        let to = &mut to[*i as usize * cols..][..cols];
        to.iter_mut().zip(row).for_each(|(y, x)| *y += x);
    }
}

/// Times each operation and a loop that writes the same numbers into kept memory: W13.
pub(super) fn operations(timer: &mut Timer) -> Result<()> {
    let (table, rows) = (fill(140, TABLE, 1.0), fill(141, [ROWS, TABLE[1]], 1.0));
    let of_rows = places(ROWS, TABLE[0]);
    let indices = Tensor::from(of_rows.clone());
    let x = fill(142, [N, N], 1.0);
    let [t, r, m] = [&table, &rows, &x].map(|x| x.to_vec::<f32>());
    let cols = TABLE[1];

    timer.beside(
        "W13_take_rows",
        || table.take(&indices, 0),
        |out| {
            for (out, i) in out.chunks_exact_mut(cols).zip(&of_rows) {
                out.copy_from_slice(&t[*i as usize * cols..][..cols]);
            }
        },
    )?;
    timer.beside(
        "W13_add_rows",
        || table.scatter_add(&indices, &rows, 0),
        |out| {
            out.copy_from_slice(&t);
            add_rows(out, &r, &of_rows, cols);
        },
    )?;
    timer.beside(
        "W13_set_rows",
        || table.scatter_set(&indices, &rows, 0),
        |out| {
            out.copy_from_slice(&t);
            for (row, i) in r.chunks_exact(cols).zip(&of_rows) {
                out[*i as usize * cols..][..cols].copy_from_slice(row);
            }
        },
    )?;
    timer.beside(
        "W13_segment_rows",
        || rows.segment_sum(&indices, TABLE[0]),
        |out| {
            out.fill(0.0);
            add_rows(out, &r, &of_rows, cols);
        },
    )?;

    // Single elements of a vector.
    let (flat, all) = (x.reshape([N * N]), places(N * N, N * N));
    evaluate(&flat)?;
    let indices = Tensor::from(all.clone());
    timer.beside(
        "W13_take",
        || flat.take(&indices, 0),
        |out| {
            out.iter_mut()
                .zip(&all)
                .for_each(|(y, i)| *y = m[*i as usize]);
        },
    )?;
    timer.beside(
        "W13_scatter_add",
        || flat.scatter_add(&indices, &flat, 0),
        |out| {
            out.copy_from_slice(&m);
            m.iter().zip(&all).for_each(|(x, i)| out[*i as usize] += x);
        },
    )?;
    timer.beside(
        "W13_scatter_max",
        || flat.scatter_max(&indices, &flat, 0),
        |out| {
            out.copy_from_slice(&m);
            for (x, i) in m.iter().zip(&all) {
                let y = &mut out[*i as usize];
                *y = y.max(*x);
            }
        },
    )?;
    let few = places(N * N, 1000);
    let ids = Tensor::from(few.clone());
    timer.beside(
        "W13_segment_sum",
        || flat.segment_sum(&ids, 1000),
        |out| {
            out.fill(0.0);
            m.iter().zip(&few).for_each(|(x, i)| out[*i as usize] += x);
        },
    )?;

    // Indices along an axis of a matrix.
    let of_axis = places(N, N);
    let indices = Tensor::from(of_axis.clone());
    timer.beside(
        "W13_take_columns",
        || x.take(&indices, 1),
        |out| {
            for (out, row) in out.chunks_exact_mut(N).zip(m.chunks_exact(N)) {
                out.iter_mut()
                    .zip(&of_axis)
                    .for_each(|(y, i)| *y = row[*i as usize]);
            }
        },
    )?;
    let along = places(N * N, N);
    let indices = Tensor::from_vec(along.clone(), [N, N]);
    timer.beside(
        "W13_along1",
        || x.take_along_axis(&indices, 1),
        |out| {
            let rows = m.chunks_exact(N).zip(along.chunks_exact(N));
            for (out, (row, indices)) in out.chunks_exact_mut(N).zip(rows) {
                out.iter_mut()
                    .zip(indices)
                    .for_each(|(y, i)| *y = row[*i as usize]);
            }
        },
    )?;
    timer.beside(
        "W13_along0",
        || x.take_along_axis(&indices, 0),
        |out| {
            for (out, indices) in out.chunks_exact_mut(N).zip(along.chunks_exact(N)) {
                let each = out.iter_mut().zip(indices).enumerate();
                each.for_each(|(j, (y, i))| *y = m[*i as usize * N + j]);
            }
        },
    )?;

    // Rows and elements in another order.
    timer.beside(
        "W13_flip1",
        || x.flip(1),
        |out| {
            for (out, row) in out.chunks_exact_mut(N).zip(m.chunks_exact(N)) {
                out.iter_mut()
                    .zip(row.iter().rev())
                    .for_each(|(y, x)| *y = *x);
            }
        },
    )?;
    timer.beside(
        "W13_flip0",
        || x.flip(0),
        |out| {
            for (out, row) in out.chunks_exact_mut(N).zip(m.chunks_exact(N).rev()) {
                out.copy_from_slice(row);
            }
        },
    )?;
    timer.beside(
        "W13_flip_step",
        || x.i(((..).by(-1), (..).by(-2))),
        |out| {
            for (out, row) in out.chunks_exact_mut(N / 2).zip(m.chunks_exact(N).rev()) {
                out.iter_mut()
                    .zip(row.iter().rev().step_by(2))
                    .for_each(|(y, x)| *y = *x);
            }
        },
    )?;
    timer.beside(
        "W13_flip_transposed",
        || x.transpose().flip(1),
        |out| transposed(&m, out),
    )?;
    timer.beside(
        "W13_roll1",
        || x.roll(100, 1),
        |out| {
            for (out, row) in out.chunks_exact_mut(N).zip(m.chunks_exact(N)) {
                out[..100].copy_from_slice(&row[N - 100..]);
                out[100..].copy_from_slice(&row[..N - 100]);
            }
        },
    )?;
    timer.beside(
        "W13_roll0",
        || x.roll(100, 0),
        |out| {
            out[..100 * N].copy_from_slice(&m[(N - 100) * N..]);
            out[100 * N..].copy_from_slice(&m[..(N - 100) * N]);
        },
    )?;
    timer.beside(
        "W13_tril",
        || x.tril(0),
        |out| {
            for (i, (out, row)) in out.chunks_exact_mut(N).zip(m.chunks_exact(N)).enumerate() {
                out[..=i].copy_from_slice(&row[..=i]);
                out[i + 1..].fill(0.0);
            }
        },
    )
}

/// Writes the transpose of a square matrix in tiles, with its rows reversed.
fn transposed(x: &[f32], out: &mut [f32]) {
    const TILE: usize = 16;
    for i0 in (0..N).step_by(TILE) {
        for j0 in (0..N).step_by(TILE) {
            for i in i0..i0 + TILE {
                for j in j0..j0 + TILE {
                    out[i * N + N - 1 - j] = x[j * N + i];
                }
            }
        }
    }
}
