//! Scans, orders and reductions along axes, each beside a plain loop: W14.

use super::inputs::{fill, near_one};
use super::measure::Timer;
use gradloom::prelude::*;

/// Rows and columns of a matrix.
const N: usize = 1024;
/// Shape of a tensor whose middle axis is scanned.
const MIDDLE: [usize; 3] = [64, 1024, 16];

/// Scans rows of `n` elements.
fn rows(xs: &[f32], out: &mut [f32], n: usize, f: impl Fn(f32, f32) -> f32) {
    for (out, row) in out.chunks_exact_mut(n).zip(xs.chunks_exact(n)) {
        let mut sum = row[0];
        out[0] = sum;
        for (y, x) in out[1..].iter_mut().zip(&row[1..]) {
            sum = f(sum, *x);
            *y = sum;
        }
    }
}

/// Scans the columns of matrices with `r` rows of `b` elements.
fn columns(xs: &[f32], out: &mut [f32], [r, b]: [usize; 2], f: impl Fn(f32, f32) -> f32) {
    for (out, xs) in out.chunks_exact_mut(r * b).zip(xs.chunks_exact(r * b)) {
        out[..b].copy_from_slice(&xs[..b]);
        for row in 1..r {
            let (before, out) = out.split_at_mut(row * b);
            let before = &before[(row - 1) * b..];
            for ((y, sum), x) in out[..b].iter_mut().zip(before).zip(&xs[row * b..][..b]) {
                *y = f(*sum, *x);
            }
        }
    }
}

/// Times each operation and a loop that writes the same numbers into kept memory: W14.
pub(super) fn operations(timer: &mut Timer) -> Result<()> {
    let x = fill(150, [N, N], 1.0);
    let m = x.to_vec::<f32>();
    scans(timer, &x, &m)?;
    orders(timer, &x, &m)?;
    reductions(timer, &x, &m)
}

fn scans(timer: &mut Timer, x: &Tensor, m: &[f32]) -> Result<()> {
    let add = |a: f32, b: f32| a + b;
    timer.beside("W14_cumsum1", || x.cumsum(1), |out| rows(m, out, N, add))?;
    timer.beside(
        "W14_cumsum0",
        || x.cumsum(0),
        |out| columns(m, out, [N, N], add),
    )?;
    let deep = x.reshape(MIDDLE);
    evaluate(&deep)?;
    timer.beside(
        "W14_cumsum_middle",
        || deep.cumsum(1),
        |out| {
            columns(m, out, [MIDDLE[1], MIDDLE[2]], add);
        },
    )?;
    timer.beside(
        "W14_cumsum_back",
        || x.cumsum_reverse(1),
        |out| {
            for (out, row) in out.chunks_exact_mut(N).zip(m.chunks_exact(N)) {
                let mut sum = 0.0;
                for (y, x) in out.iter_mut().zip(row).rev() {
                    sum += x;
                    *y = sum;
                }
            }
        },
    )?;
    timer.beside(
        "W14_cumsum_pairs",
        || x.reshape([N * N / 2, 2]).cumsum(0),
        |out| {
            columns(m, out, [N * N / 2, 2], add);
        },
    )?;
    timer.beside(
        "W14_cummax1",
        || x.cummax(1),
        |out| rows(m, out, N, f32::max),
    )?;
    timer.beside(
        "W14_cummax0",
        || x.cummax(0),
        |out| columns(m, out, [N, N], f32::max),
    )?;
    let gain = near_one(151, N * N, 0.01);
    let g = gain.to_vec::<f32>();
    let gain = gain.reshape([N, N]);
    evaluate(&gain)?;
    let times = |a: f32, b: f32| a * b;
    timer.beside(
        "W14_cumprod1",
        || gain.cumprod(1),
        |out| rows(&g, out, N, times),
    )?;
    timer.beside(
        "W14_cumprod0",
        || gain.cumprod(0),
        |out| columns(&g, out, [N, N], times),
    )?;
    timer.beside(
        "W14_recurrence1",
        || x.recurrence(&gain, 1),
        |out| {
            let both = m.chunks_exact(N).zip(g.chunks_exact(N));
            for (out, (row, gain)) in out.chunks_exact_mut(N).zip(both) {
                let mut y = 0.0;
                for (out, (x, a)) in out.iter_mut().zip(row.iter().zip(gain)) {
                    y = x + a * y;
                    *out = y;
                }
            }
        },
    )?;
    timer.beside(
        "W14_recurrence0",
        || x.recurrence(&gain, 0),
        |out| {
            out[..N].copy_from_slice(&m[..N]);
            for row in 1..N {
                let (before, out) = out.split_at_mut(row * N);
                let both = m[row * N..][..N].iter().zip(&g[row * N..][..N]);
                for ((y, last), (x, a)) in out.iter_mut().zip(&before[(row - 1) * N..]).zip(both) {
                    *y = x + a * last;
                }
            }
        },
    )
}

/// Returns the indices of a row in ascending order of its elements.
fn order(row: &[f32]) -> Vec<(f32, u32)> {
    let mut pairs: Vec<(f32, u32)> = row.iter().copied().zip(0..).collect();
    pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    pairs
}

fn orders(timer: &mut Timer, x: &Tensor, m: &[f32]) -> Result<()> {
    const MOST: usize = 8;
    timer.beside(
        "W14_sort1",
        || x.sort(1),
        |out| {
            out.copy_from_slice(m);
            for row in out.chunks_exact_mut(N) {
                row.sort_unstable_by(f32::total_cmp);
            }
        },
    )?;
    timer.beside(
        "W14_sort0",
        || x.sort(0),
        |out| {
            let mut column = vec![0.0; N];
            for j in 0..N {
                column
                    .iter_mut()
                    .zip(m[j..].iter().step_by(N))
                    .for_each(|(y, x)| *y = *x);
                column.sort_unstable_by(f32::total_cmp);
                out[j..]
                    .iter_mut()
                    .step_by(N)
                    .zip(&column)
                    .for_each(|(y, x)| *y = *x);
            }
        },
    )?;
    let flat = x.reshape([N * N]);
    evaluate(&flat)?;
    timer.beside(
        "W14_sort_flat",
        || flat.sort(0),
        |out| {
            out.copy_from_slice(m);
            out.sort_unstable_by(f32::total_cmp);
        },
    )?;
    timer.beside(
        "W14_argsort1",
        || x.argsort(1).cast(DType::F32),
        |out| {
            for (out, row) in out.chunks_exact_mut(N).zip(m.chunks_exact(N)) {
                let order = order(row);
                out.iter_mut()
                    .zip(order)
                    .for_each(|(y, (_, i))| *y = i as f32);
            }
        },
    )?;
    timer.beside(
        "W14_argsort_flat",
        || flat.argsort(0).cast(DType::F32),
        |out| {
            let order = order(m);
            out.iter_mut()
                .zip(order)
                .for_each(|(y, (_, i))| *y = i as f32);
        },
    )?;
    timer.beside(
        "W14_top_k",
        || x.top_k(MOST as i64, 1),
        |out| {
            for (out, row) in out.chunks_exact_mut(MOST).zip(m.chunks_exact(N)) {
                // The greatest elements so far, in descending order.
                let mut most = [f32::NEG_INFINITY; MOST];
                for x in row {
                    if *x > most[MOST - 1] {
                        let at = most.partition_point(|y| y >= x);
                        most.copy_within(at..MOST - 1, at + 1);
                        most[at] = *x;
                    }
                }
                out.copy_from_slice(&most);
            }
        },
    )
}

fn reductions(timer: &mut Timer, x: &Tensor, m: &[f32]) -> Result<()> {
    let var = |row: &[f32]| {
        let lanes = |f: &dyn Fn(f32) -> f32| {
            let mut sums = [0.0f32; 16];
            for xs in row.chunks_exact(16) {
                sums.iter_mut().zip(xs).for_each(|(s, x)| *s += f(*x));
            }
            sums.iter().sum::<f32>() / N as f32
        };
        let mean = lanes(&|x| x);
        lanes(&|x| (x - mean) * (x - mean))
    };
    timer.beside(
        "W14_var1",
        || x.var(1, 0),
        |out| {
            out.iter_mut()
                .zip(m.chunks_exact(N))
                .for_each(|(y, row)| *y = var(row));
        },
    )?;
    timer.beside(
        "W14_std1",
        || x.std(1, 0),
        |out| {
            out.iter_mut()
                .zip(m.chunks_exact(N))
                .for_each(|(y, row)| *y = var(row).sqrt());
        },
    )?;
    timer.beside(
        "W14_var0",
        || x.var(0, 0),
        |out| {
            let mut means = vec![0.0f32; N];
            for row in m.chunks_exact(N) {
                means.iter_mut().zip(row).for_each(|(y, x)| *y += x);
            }
            means.iter_mut().for_each(|y| *y /= N as f32);
            out.fill(0.0);
            for row in m.chunks_exact(N) {
                let each = out.iter_mut().zip(row).zip(&means);
                each.for_each(|((y, x), mean)| *y += (x - mean) * (x - mean));
            }
            out.iter_mut().for_each(|y| *y /= N as f32);
        },
    )?;
    timer.beside(
        "W14_norm1",
        || x.norm(1),
        |out| {
            for (y, row) in out.iter_mut().zip(m.chunks_exact(N)) {
                let mut sums = [0.0f32; 16];
                for xs in row.chunks_exact(16) {
                    sums.iter_mut().zip(xs).for_each(|(s, x)| *s += x * x);
                }
                *y = sums.iter().sum::<f32>().sqrt();
            }
        },
    )?;
    timer.beside(
        "W14_norm0",
        || x.norm(0),
        |out| {
            out.fill(0.0);
            for row in m.chunks_exact(N) {
                out.iter_mut().zip(row).for_each(|(y, x)| *y += x * x);
            }
            out.iter_mut().for_each(|y| *y = y.sqrt());
        },
    )?;
    timer.beside(
        "W14_logsumexp1",
        || x.logsumexp(1),
        |out| {
            for (y, row) in out.iter_mut().zip(m.chunks_exact(N)) {
                let most = row.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
                let sum: f32 = row.iter().map(|x| (x - most).exp()).sum();
                *y = most + sum.ln();
            }
        },
    )?;
    timer.beside(
        "W14_logsumexp0",
        || x.logsumexp(0),
        |out| {
            let (mut most, mut sums) = (vec![f32::NEG_INFINITY; N], vec![0.0f32; N]);
            for row in m.chunks_exact(N) {
                most.iter_mut().zip(row).for_each(|(y, x)| *y = y.max(*x));
            }
            for row in m.chunks_exact(N) {
                let each = sums.iter_mut().zip(row).zip(&most);
                each.for_each(|((y, x), most)| *y += (x - most).exp());
            }
            let each = out.iter_mut().zip(most).zip(sums);
            each.for_each(|((y, most), sum)| *y = most + sum.ln());
        },
    )
}
