//! Convolutions and pooling, each beside a plain loop: W15.

use super::inputs::{fill, weight};
use super::measure::Timer;
use gradloom::prelude::*;
use gradloom::vjp;

/// Batch of a convolution of images, and its channels.
const BATCH: usize = 4;
const INS: usize = 32;
const OUTS: usize = 32;
/// Rows and columns of an image.
const SIDE: usize = 32;
/// Batch, channels, length, number of channels and window of a convolution along one axis.
const LINE: [usize; 5] = [8, 32, 1024, 32, 5];
/// Number of planes for pooling, and their rows and columns.
const PLANES: usize = 256;
const WIDE: usize = 64;

/// A convolution with windows `[h, w]` that keeps the sides of planes.
#[derive(Clone, Copy)]
struct Plain {
    batch: usize,
    ins: usize,
    outs: usize,
    plane: [usize; 2],
    window: [usize; 2],
}

impl Plain {
    /// Calls `f` with the index of a weight and the starts and length of two rows that it connects: in an
    /// input plane and in an output plane.
    fn each_row(self, mut f: impl FnMut(usize, usize, usize, usize)) {
        let ([h, w], [kh, kw]) = (self.plane, self.window);
        for n in 0..self.batch {
            for o in 0..self.outs {
                for c in 0..self.ins {
                    for (ky, kx) in (0..kh).flat_map(|ky| (0..kw).map(move |kx| (ky, kx))) {
                        let weight = ((o * self.ins + c) * kh + ky) * kw + kx;
                        let (dy, dx) =
                            (ky as isize - kh as isize / 2, kx as isize - kw as isize / 2);
                        let (first, len) = ((-dx).max(0) as usize, w - dx.unsigned_abs());
                        for y in 0..h {
                            let from = y as isize + dy;
                            if (0..h as isize).contains(&from) {
                                let row = ((n * self.ins + c) * h + from as usize) * w;
                                let to = ((n * self.outs + o) * h + y) * w;
                                f(
                                    weight,
                                    row + (first as isize + dx) as usize,
                                    to + first,
                                    len,
                                );
                            }
                        }
                    }
                }
            }
        }
    }

    fn forward(self, x: &[f32], k: &[f32], z: &mut [f32]) {
        z.fill(0.0);
        self.each_row(|at, from, to, len| {
            let (factor, rows) = (k[at], z[to..to + len].iter_mut().zip(&x[from..from + len]));
            rows.for_each(|(z, x)| *z += factor * x);
        });
    }

    fn inputs(self, z: &[f32], k: &[f32], x: &mut [f32]) {
        x.fill(0.0);
        self.each_row(|at, from, to, len| {
            let (factor, rows) = (k[at], x[from..from + len].iter_mut().zip(&z[to..to + len]));
            rows.for_each(|(x, z)| *x += factor * z);
        });
    }

    fn weights(self, x: &[f32], z: &[f32], k: &mut [f32]) {
        k.fill(0.0);
        self.each_row(|at, from, to, len| {
            let (x, z) = (&x[from..from + len], &z[to..to + len]);
            let mut sums = [0.0f32; 8];
            for (x, z) in x.chunks_exact(8).zip(z.chunks_exact(8)) {
                sums.iter_mut()
                    .zip(x.iter().zip(z))
                    .for_each(|(s, (x, z))| *s += x * z);
            }
            let rest = x.chunks_exact(8).remainder().iter();
            let rest: f32 = rest
                .zip(z.chunks_exact(8).remainder())
                .map(|(x, z)| x * z)
                .sum();
            k[at] += sums.iter().sum::<f32>() + rest;
        });
    }
}

/// Times each operation and a loop that writes the same numbers into kept memory: W15.
pub(super) fn operations(timer: &mut Timer) -> Result<()> {
    let images = fill(160, [BATCH, INS, SIDE, SIDE], 1.0);
    let k = weight(161, INS * 9, OUTS).reshape([OUTS, INS, 3, 3]);
    let plain = Plain {
        batch: BATCH,
        ins: INS,
        outs: OUTS,
        plane: [SIDE, SIDE],
        window: [3, 3],
    };
    convolution(timer, "W15_conv2d", &images, &k, plain)?;
    let [batch, ins, len, outs, window] = LINE;
    let lines = fill(162, [batch, ins, len], 1.0);
    let k = weight(163, ins * window, outs).reshape([outs, ins, window]);
    let plain = Plain {
        batch,
        ins,
        outs,
        plane: [1, len],
        window: [1, window],
    };
    convolution(timer, "W15_conv1d", &lines, &k, plain)?;
    depthwise(timer)?;
    pooling(timer)
}

fn convolution(timer: &mut Timer, name: &str, x: &Tensor, k: &Tensor, plain: Plain) -> Result<()> {
    let conv = |(x, k): &(Tensor, Tensor)| x.conv_same(k, 1);
    let (z, pullback) = vjp(conv, &(x.clone(), k.clone()));
    let ct = fill(164, z.shape(), 1.0);
    let [xs, ks, cts] = [x, k, &ct].map(|x| x.to_vec::<f32>());
    timer.beside(
        name,
        || x.conv_same(k, 1),
        |out| plain.forward(&xs, &ks, out),
    )?;
    timer.beside(
        &format!("{name}_input"),
        || pullback.call(&ct).0,
        |out| plain.inputs(&cts, &ks, out),
    )?;
    timer.beside(
        &format!("{name}_weights"),
        || pullback.call(&ct).1,
        |out| plain.weights(&xs, &cts, out),
    )
}

/// Times a convolution with a group for each channel.
fn depthwise(timer: &mut Timer) -> Result<()> {
    let x = fill(165, [BATCH, 64, WIDE, WIDE], 1.0);
    let k = fill(166, [64, 1, 3, 3], 1.0);
    let [xs, ks] = [&x, &k].map(|x| x.to_vec::<f32>());
    let plain = Plain {
        batch: 1,
        ins: 1,
        outs: 1,
        plane: [WIDE, WIDE],
        window: [3, 3],
    };
    timer.beside(
        "W15_depthwise",
        || x.conv(&k, 1, 1, 1, 64),
        |out| {
            let planes = out
                .chunks_exact_mut(WIDE * WIDE)
                .zip(xs.chunks_exact(WIDE * WIDE));
            for (plane, (out, x)) in planes.enumerate() {
                plain.forward(x, &ks[plane % 64 * 9..][..9], out);
            }
        },
    )
}

/// Combines the elements of windows of 2 x 2.
fn squares(x: &[f32], out: &mut [f32], f: impl Fn([f32; 4]) -> f32) {
    let rows = out.chunks_exact_mut(WIDE / 2).zip(x.chunks_exact(2 * WIDE));
    for (out, rows) in rows {
        let (above, below) = rows.split_at(WIDE);
        let pairs = above.chunks_exact(2).zip(below.chunks_exact(2));
        for (y, (a, b)) in out.iter_mut().zip(pairs) {
            *y = f([a[0], a[1], b[0], b[1]]);
        }
    }
}

/// Combines the elements of windows of 3 x 3 around each element, which are `outside` beyond the edges.
fn around(x: &[f32], out: &mut [f32], outside: f32, f: impl Fn(f32, f32) -> f32) {
    let mut padded = vec![outside; WIDE + 2];
    let mut across = vec![outside; (WIDE + 2) * WIDE];
    for (out, x) in out
        .chunks_exact_mut(WIDE * WIDE)
        .zip(x.chunks_exact(WIDE * WIDE))
    {
        for (to, row) in across[WIDE..]
            .chunks_exact_mut(WIDE)
            .zip(x.chunks_exact(WIDE))
        {
            padded[1..=WIDE].copy_from_slice(row);
            for j in 0..WIDE {
                to[j] = f(f(padded[j], padded[j + 1]), padded[j + 2]);
            }
        }
        for (i, out) in out.chunks_exact_mut(WIDE).enumerate() {
            let [a, b, c] = [0, 1, 2].map(|k| &across[(i + k) * WIDE..][..WIDE]);
            for j in 0..WIDE {
                out[j] = f(f(a[j], b[j]), c[j]);
            }
        }
    }
}

fn pooling(timer: &mut Timer) -> Result<()> {
    let x = fill(167, [8, PLANES / 8, WIDE, WIDE], 1.0);
    let xs = x.to_vec::<f32>();
    timer.beside(
        "W15_max_pool",
        || x.max_pool([2, 2], 2, 0),
        |out| {
            squares(&xs, out, |[a, b, c, d]| a.max(b).max(c.max(d)));
        },
    )?;
    timer.beside(
        "W15_avg_pool",
        || x.avg_pool([2, 2], 2, 0),
        |out| {
            squares(&xs, out, |[a, b, c, d]| (a + b + c + d) * 0.25);
        },
    )?;
    timer.beside(
        "W15_max_pool3",
        || x.max_pool([3, 3], 1, 1),
        |out| {
            around(&xs, out, f32::NEG_INFINITY, f32::max);
        },
    )?;
    timer.beside(
        "W15_avg_pool3",
        || x.avg_pool([3, 3], 1, 1),
        |out| {
            around(&xs, out, 0.0, |a, b| a + b);
            out.iter_mut().for_each(|y| *y /= 9.0);
        },
    )?;
    let (y, pullback) = vjp(|x: &Tensor| x.max_pool([2, 2], 2, 0), &x);
    let ct = fill(168, y.shape(), 1.0);
    let cts = ct.to_vec::<f32>();
    timer.beside(
        "W15_max_pool_vjp",
        || pullback.call(&ct),
        |out| {
            let rows = out
                .chunks_exact_mut(2 * WIDE)
                .zip(xs.chunks_exact(2 * WIDE));
            for ((out, x), ct) in rows.zip(cts.chunks_exact(WIDE / 2)) {
                out.fill(0.0);
                for (j, ct) in ct.iter().enumerate() {
                    let places = [2 * j, 2 * j + 1, WIDE + 2 * j, WIDE + 2 * j + 1];
                    let best = places
                        .iter()
                        .fold(places[0], |best, i| if x[*i] > x[best] { *i } else { best });
                    out[best] = *ct;
                }
            }
        },
    )?;
    let (_, pullback) = vjp(|x: &Tensor| x.avg_pool([2, 2], 2, 0), &x);
    timer.beside(
        "W15_avg_pool_vjp",
        || pullback.call(&ct),
        |out| {
            for (out, ct) in out
                .chunks_exact_mut(2 * WIDE)
                .zip(cts.chunks_exact(WIDE / 2))
            {
                let (above, below) = out.split_at_mut(WIDE);
                let pairs = above.chunks_exact_mut(2).zip(below.chunks_exact_mut(2));
                for ((a, b), ct) in pairs.zip(ct) {
                    a.fill(ct * 0.25);
                    b.fill(ct * 0.25);
                }
            }
        },
    )
}
