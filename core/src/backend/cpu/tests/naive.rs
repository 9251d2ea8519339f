//! Reference implementation of each kernel, index by index, in `f64`.

use gradloom_ir::op::shape;
use gradloom_ir::{Op, Static};

/// An array in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Nd {
    pub(super) shape: Vec<usize>,
    pub(super) data: Vec<f64>,
}

/// Returns every index of a shape, in row-major order.
pub(super) fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &len in shape {
        all = all
            .iter()
            .flat_map(|head| (0..len).map(move |i| [head.as_slice(), &[i]].concat()))
            .collect();
    }
    all
}

impl Nd {
    pub(super) fn build(shape: &[usize], f: impl FnMut(Vec<usize>) -> f64) -> Nd {
        Nd {
            shape: shape.to_vec(),
            data: indices(shape).into_iter().map(f).collect(),
        }
    }

    pub(super) fn zeros(shape: &[usize]) -> Nd {
        Nd::build(shape, |_| 0.0)
    }

    fn at(&self, index: &[usize]) -> usize {
        assert_eq!(index.len(), self.shape.len());
        index
            .iter()
            .zip(&self.shape)
            .fold(0, |at, (i, len)| at * len + i)
    }

    fn get(&self, index: &[usize]) -> f64 {
        self.data[self.at(index)]
    }

    fn add(&mut self, index: &[usize], x: f64) {
        let at = self.at(index);
        self.data[at] += x;
    }

    /// Returns the element that broadcasting reads for `index` of a larger shape.
    pub(super) fn spread(&self, index: &[usize]) -> f64 {
        self.get(&aligned(&self.shape, index))
    }
}

/// Returns the index into `shape` that broadcasting reads for `index` of a larger shape.
fn aligned(shape: &[usize], index: &[usize]) -> Vec<usize> {
    let index = &index[index.len() - shape.len()..];
    index
        .iter()
        .zip(shape)
        .map(|(&i, &len)| if len == 1 { 0 } else { i })
        .collect()
}

/// Returns the elements of `x` along `axes`. `index` gives the position on all other axes.
fn row(x: &Nd, axes: &[usize], index: &[usize]) -> Vec<f64> {
    let lens: Vec<usize> = axes.iter().map(|&a| x.shape[a]).collect();
    let mut index = index.to_vec();
    indices(&lens)
        .iter()
        .map(|along| {
            for (&axis, &i) in axes.iter().zip(along) {
                index[axis] = i;
            }
            x.get(&index)
        })
        .collect()
}

/// Reduces each row to a number. The axes of the rows are dropped, or kept with length 1.
fn reduce(x: &Nd, axes: &[usize], shape: &[usize], f: impl Fn(&[f64]) -> f64) -> Nd {
    let kept: Vec<usize> = x
        .shape
        .iter()
        .enumerate()
        .map(|(a, &len)| if axes.contains(&a) { 1 } else { len })
        .collect();
    let data = Nd::build(&kept, |i| f(&row(x, axes, &i))).data;
    Nd {
        shape: shape.to_vec(),
        data,
    }
}

pub(super) fn log_sum_exp(row: &[f64]) -> f64 {
    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + row.iter().map(|x| (x - top).exp()).sum::<f64>().ln()
}

fn moments(row: &[f64], eps: f64) -> (f64, f64) {
    let n = row.len() as f64;
    let mean = row.iter().sum::<f64>() / n;
    let var = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    (mean, 1.0 / (var + eps).sqrt())
}

/// Returns the terms of a matrix product as indices of `x`, `y` and `x y`.
fn terms(x: &[usize], y: &[usize]) -> Vec<[Vec<usize>; 3]> {
    let matrix = |s: &[usize], vector: [usize; 2]| {
        if s.len() == 1 {
            vector.to_vec()
        } else {
            s.to_vec()
        }
    };
    let (xm, ym) = (matrix(x, [1, x[0]]), matrix(y, [y[0], 1]));
    let (xb, yb) = (&xm[..xm.len() - 2], &ym[..ym.len() - 2]);
    let rank = xb.len().max(yb.len());
    let len = |s: &[usize], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
    let batch: Vec<usize> = (0..rank)
        .map(|i| {
            if len(xb, i) == 1 {
                len(yb, i)
            } else {
                len(xb, i)
            }
        })
        .collect();
    let (m, k, n) = (xm[xm.len() - 2], xm[xm.len() - 1], ym[ym.len() - 1]);
    let mut all = Vec::new();
    for b in indices(&batch) {
        for ijp in indices(&[m, n, k]) {
            let (i, j, p) = (ijp[0], ijp[1], ijp[2]);
            let rows = |on: bool| if on { vec![i] } else { vec![] };
            let cols = |on: bool| if on { vec![j] } else { vec![] };
            all.push([
                [aligned(xb, &b), rows(x.len() > 1), vec![p]].concat(),
                [aligned(yb, &b), vec![p], cols(y.len() > 1)].concat(),
                [b.clone(), rows(x.len() > 1), cols(y.len() > 1)].concat(),
            ]);
        }
    }
    all
}

/// Evaluates an op that is not elementwise. `likes` and `outs` are shapes.
pub(super) fn eval(
    op: Op,
    statics: &[Static],
    args: &[Nd],
    likes: &[Vec<usize>],
    outs: &[Vec<usize>],
) -> Vec<Nd> {
    let out = &outs[0][..];
    let rank = args.first().map_or(0, |x| x.shape.len());
    let axes = |of: usize| shape::axes(&statics[0], of).unwrap().unwrap();
    let axis = |i: usize, of: usize| shape::axis(statics[i].int().unwrap(), of).unwrap();
    let eps = |i: usize| statics[i].float().unwrap();
    let value = |i: usize| match statics[i] {
        Static::Bool(b) => f64::from(u8::from(b)),
        ref s => s.float().unwrap(),
    };
    let x = || &args[0];
    let best = |row: &[f64], wins: fn(f64, f64) -> bool| {
        (1..row.len()).fold(0, |best, i| if wins(row[i], row[best]) { i } else { best })
    };
    let same_order = || Nd {
        shape: out.to_vec(),
        data: args[0].data.clone(),
    };
    let permuted = |to: &dyn Fn(&[usize]) -> Vec<usize>| Nd::build(out, |i| args[0].get(&to(&i)));
    let start = |i: usize, len: usize| {
        let start = statics[0].ints().unwrap().get(i).copied().unwrap_or(0);
        if start < 0 {
            (start + len as i64) as usize
        } else {
            start as usize
        }
    };
    let step = |i: usize| statics[2].ints().unwrap().get(i).map_or(1, |s| *s as usize);
    // Maps an index of a slice to the index in the sliced operand.
    let taken = |i: &[usize], from: &[usize]| -> Vec<usize> {
        i.iter()
            .enumerate()
            .map(|(a, &i)| {
                if i == 0 {
                    start(a, from[a])
                } else {
                    start(a, from[a]) + i * step(a)
                }
            })
            .collect()
    };
    let one = match op {
        Op::Select => Nd::build(out, |i| {
            args[if args[0].spread(&i) != 0.0 { 1 } else { 2 }].spread(&i)
        }),
        Op::Cast | Op::CastT => match statics[0].dtype().filter(|_| op == Op::Cast) {
            Some(gradloom_ir::DType::Bool) => {
                Nd::build(out, |i| f64::from(u8::from(x().get(&i) != 0.0)))
            }
            Some(d) if !d.is_float() => Nd::build(out, |i| x().get(&i).trunc()),
            _ => same_order(),
        },
        Op::Scalar | Op::FullLike => Nd::build(out, |_| value(0)),
        Op::Full => Nd::build(out, |_| value(1)),
        Op::Iota => Nd::build(out, |i| i[0] as f64),
        Op::BroadcastLike | Op::BroadcastTo => Nd::build(out, |i| x().spread(&i)),
        Op::Unbroadcast => {
            let mut total = Nd::zeros(out);
            for i in indices(&x().shape) {
                total.add(&aligned(out, &i), x().get(&i));
            }
            total
        }
        Op::Sum => reduce(x(), &axes(rank), out, |row| row.iter().sum()),
        Op::Mean => reduce(x(), &axes(rank), out, |row| {
            row.iter().sum::<f64>() / row.len() as f64
        }),
        Op::Max => reduce(x(), &axes(rank), out, |row| row[best(row, |x, y| x > y)]),
        Op::Min => reduce(x(), &axes(rank), out, |row| row[best(row, |x, y| x < y)]),
        Op::Argmax => reduce(x(), &[axis(0, rank)], out, |row| {
            best(row, |x, y| x > y) as f64
        }),
        Op::Argmin => reduce(x(), &[axis(0, rank)], out, |row| {
            best(row, |x, y| x < y) as f64
        }),
        Op::Logsumexp => reduce(x(), &axes(rank), out, log_sum_exp),
        Op::InvStd => reduce(x(), &axes(rank), out, |row| moments(row, eps(1)).1),
        Op::SumT | Op::MeanT => {
            let axes = axes(out.len());
            let n: usize = axes.iter().map(|&a| out[a]).product();
            let scale = if op == Op::MeanT { 1.0 / n as f64 } else { 1.0 };
            let kept = out
                .iter()
                .enumerate()
                .map(|(a, &len)| if axes.contains(&a) { 1 } else { len });
            let y = Nd {
                shape: kept.collect(),
                data: x().data.clone(),
            };
            Nd::build(out, |i| y.spread(&i) * scale)
        }
        Op::Softmax => Nd::build(out, |i| {
            (x().get(&i) - log_sum_exp(&row(x(), &[axis(0, rank)], &i))).exp()
        }),
        Op::LogSoftmax => Nd::build(out, |i| {
            x().get(&i) - log_sum_exp(&row(x(), &[axis(0, rank)], &i))
        }),
        Op::Normalize => Nd::build(out, |i| {
            let (mean, scale) = moments(&row(x(), &axes(rank), &i), eps(1));
            (x().get(&i) - mean) * scale
        }),
        Op::SoftmaxT => Nd::build(out, |i| {
            let [v, y] = [x(), &args[1]].map(|a| row(a, &[axis(0, rank)], &i));
            let total: f64 = v.iter().zip(&y).map(|(v, y)| v * y).sum();
            args[1].get(&i) * (x().get(&i) - total)
        }),
        Op::LogSoftmaxJvp | Op::LogSoftmaxVjp => Nd::build(out, |i| {
            let [v, y] = [x(), &args[1]].map(|a| row(a, &[axis(0, rank)], &i));
            let own = args[1].get(&i).exp();
            let total: f64 = match op {
                Op::LogSoftmaxJvp => v.iter().zip(&y).map(|(v, y)| y.exp() * v).sum(),
                _ => own * v.iter().sum::<f64>(),
            };
            x().get(&i) - total
        }),
        Op::NormJvp | Op::NormVjp => return norms(op, statics, args, outs),
        Op::NormalizeT => Nd::build(out, |i| {
            let [v, y] = [x(), &args[1]].map(|a| row(a, &axes(rank), &i));
            let n = v.len() as f64;
            let along_y = v.iter().zip(&y).map(|(v, y)| v * y).sum::<f64>() / n;
            let mean = v.iter().sum::<f64>() / n;
            (x().get(&i) - mean - args[1].get(&i) * along_y) * args[2].spread(&i)
        }),
        Op::LayerNorm => Nd::build(out, |i| {
            let (mean, scale) = moments(&row(x(), &[rank - 1], &i), eps(0));
            (x().get(&i) - mean) * scale * args[1].spread(&i) + args[2].spread(&i)
        }),
        Op::RmsNorm => Nd::build(out, |i| {
            let row = row(x(), &[rank - 1], &i);
            let square = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
            x().get(&i) / (square + eps(0)).sqrt() * args[1].spread(&i)
        }),
        Op::CrossEntropyGrad => Nd::build(out, |i| {
            let p = (x().get(&i) - log_sum_exp(&row(x(), &[rank - 1], &i))).exp();
            let (class, labels) = i.split_last().unwrap();
            p - f64::from(u8::from(args[1].get(labels) == *class as f64))
        }),
        Op::CrossEntropy => {
            let rows = indices(&args[1].shape);
            let loss = rows.iter().map(|i| {
                let at = |c: usize| [i.as_slice(), &[c]].concat();
                log_sum_exp(&row(x(), &[rank - 1], &at(0))) - x().get(&at(args[1].get(i) as usize))
            });
            let total: f64 = loss.sum();
            Nd::build(out, |_| total / rows.len() as f64)
        }
        Op::OneHot => Nd::build(out, |i| {
            let (label, labels) = i.split_last().unwrap();
            f64::from(u8::from(x().get(labels) == *label as f64))
        }),
        Op::Matmul | Op::MatmulLhsT | Op::MatmulRhsT => {
            // Each term combines one element of `x`, of `y` and of the product; two of them are
            // operands.
            let [a, b, c] = match op {
                Op::Matmul => [0, 1, 2],
                Op::MatmulLhsT => [2, 1, 0],
                _ => [0, 2, 1],
            };
            let mut total = Nd::zeros(out);
            for term in terms(&likes[0], &likes[1]) {
                total.add(&term[c], args[0].get(&term[a]) * args[1].get(&term[b]));
            }
            total
        }
        Op::Transpose => permuted(&|i| i.iter().rev().copied().collect()),
        Op::Permute => permuted(&|i| {
            let axes = statics[0].ints().unwrap();
            let mut from = vec![0; rank];
            for (i, a) in i.iter().zip(axes) {
                from[shape::axis(*a, rank).unwrap()] = *i;
            }
            from
        }),
        Op::PermuteT => permuted(&|i| {
            let axes = statics[0].ints().unwrap();
            axes.iter()
                .map(|a| i[shape::axis(*a, rank).unwrap()])
                .collect()
        }),
        Op::SwapAxes => permuted(&|i| {
            let mut from = i.to_vec();
            from.swap(axis(0, rank), axis(1, rank));
            from
        }),
        Op::Moveaxis => permuted(&|i| {
            let mut from = i.to_vec();
            let moved = from.remove(axis(1, rank));
            from.insert(axis(0, rank), moved);
            from
        }),
        Op::Reshape | Op::ReshapeT | Op::Squeeze | Op::Unsqueeze => same_order(),
        Op::Slice => Nd::build(out, |i| x().get(&taken(&i, &x().shape))),
        Op::SliceT => {
            let mut all = Nd::zeros(out);
            for i in indices(&x().shape) {
                all.add(&taken(&i, out), x().get(&i));
            }
            all
        }
        Op::Concat | Op::Stack => {
            let axis = axis(0, out.len());
            Nd::build(out, |mut i| {
                if op == Op::Stack {
                    let part = i.remove(axis);
                    return args[part].get(&i);
                }
                let mut part = 0;
                while i[axis] >= args[part].shape[axis] {
                    i[axis] -= args[part].shape[axis];
                    part += 1;
                }
                args[part].get(&i)
            })
        }
        Op::Split | Op::ConcatT => {
            let axis = axis(usize::from(op == Op::Split), rank);
            let mut start = 0;
            return outs
                .iter()
                .map(|out| {
                    let part = Nd::build(out, |mut i| {
                        i[axis] += start;
                        x().get(&i)
                    });
                    start += out[axis];
                    part
                })
                .collect();
        }
        Op::Unbind => {
            let axis = axis(0, rank);
            let part = |(n, out): (usize, &Vec<usize>)| {
                Nd::build(out, |mut i| {
                    i.insert(axis, n);
                    x().get(&i)
                })
            };
            return outs.iter().enumerate().map(part).collect();
        }
        Op::Attention | Op::AttentionLse | Op::AttentionJvp | Op::AttentionVjp => {
            return super::attention::eval(op, statics, args, outs);
        }
        Op::FoldIn
        | Op::RandomBits
        | Op::RandomUniform
        | Op::RandomNormal
        | Op::RandomBernoulli
        | Op::RandomPermutation => super::random::eval(op, statics, x(), out),
        Op::Tril => Nd::build(out, |i| match i[rank - 1] > i[rank - 2] {
            true => 0.0,
            false => x().get(&i),
        }),
        other => unreachable!("`{other}` is elementwise"),
    };
    vec![one]
}

/// Evaluates the Jacobian of a norm over the last axis, or its transpose.
fn norms(op: Op, statics: &[Static], args: &[Nd], outs: &[Vec<usize>]) -> Vec<Nd> {
    let (x, w) = (&args[0], &args[1]);
    let centred = statics[0].bool().unwrap();
    let eps = statics[1].float().unwrap();
    let active = statics[2].ints().unwrap();
    let last = x.shape.len() - 1;
    let mean = |row: &[f64]| row.iter().sum::<f64>() / row.len() as f64;
    let normal = |i: &[usize]| {
        let row = row(x, &[last], i);
        let (m, r) = match centred {
            true => moments(&row, eps),
            false => {
                let squares: Vec<f64> = row.iter().map(|x| x * x).collect();
                (0.0, 1.0 / (mean(&squares) + eps).sqrt())
            }
        };
        let n: Vec<f64> = row.iter().map(|x| (x - m) * r).collect();
        (n, r)
    };
    // Element `i` of the projection of the row `v`.
    let project = |i: &[usize], v: &[f64]| {
        let (n, r) = normal(i);
        let nv: Vec<f64> = n.iter().zip(v).map(|(n, v)| n * v).collect();
        let shift = if centred { mean(v) } else { 0.0 };
        r * (v[i[last]] - shift - n[i[last]] * mean(&nv))
    };
    if op == Op::NormJvp {
        let dy = Nd::build(&outs[0], |i| {
            let (n, _) = normal(&i);
            let parts = active.iter().zip(&args[2..]).map(|(of, dx)| match of {
                0 => project(&i, &row(dx, &[last], &i)) * w.spread(&i),
                1 => n[i[last]] * dx.spread(&i),
                _ => dx.spread(&i),
            });
            parts.sum()
        });
        return vec![dy];
    }
    let ct = &args[2];
    let cotangent = |(of, out): (&i64, &Vec<usize>)| match of {
        0 => Nd::build(out, |i| {
            let v: Vec<f64> = row(ct, &[last], &i)
                .iter()
                .enumerate()
                .map(|(c, ct)| ct * w.get(&[c]))
                .collect();
            project(&i, &v)
        }),
        _ => {
            let mut total = Nd::zeros(out);
            for i in indices(&x.shape) {
                let n = if *of == 1 { normal(&i).0[i[last]] } else { 1.0 };
                total.add(&[i[last]], n * ct.get(&i));
            }
            total
        }
    };
    active.iter().zip(outs).map(cotangent).collect()
}
