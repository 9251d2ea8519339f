//! The marginal likelihood of a Gaussian process, with a Cholesky decomposition by slices.

use gradloom::prelude::*;
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::noise;
use gradloom_tests::observe::{finds, plans_nothing};
use std::f64::consts::PI;

/// Returns the lower triangle `l` with `l l^T = a`.
#[traced]
fn cholesky(a: &Tensor) -> Tensor {
    let n = a.dim(0);
    let mut rest = a.clone();
    let mut columns = Vec::with_capacity(n);
    for j in 0..n {
        let pivot = rest.slice([0, 0], [1, 1], [1, 1]).sqrt();
        let below = rest.slice([1, 0], [n - j, 1], [1, 1]) / &pivot;
        rest = rest.slice([1, 1], [n - j, n - j], [1, 1]) - below.matmul(&below.t());
        let above = Tensor::zeros([j, 1], a.dtype());
        columns.push(Tensor::concat(&[above, pivot, below], 0));
    }
    Tensor::concat(&columns, 1)
}

/// Solves `l x = b` for a lower triangle `l` and a vector `b`.
#[traced]
fn solve_lower(l: &Tensor, b: &Tensor) -> Tensor {
    let mut x: Vec<Tensor> = Vec::new();
    for i in 0..b.dim(0) {
        let mut value = b.slice([i], [i + 1], [1]);
        for (j, x) in x.iter().enumerate() {
            value -= l.slice([i, j], [i + 1, j + 1], [1, 1]).squeeze(0) * x;
        }
        x.push(value / l.slice([i, i], [i + 1, i + 1], [1, 1]).squeeze(0));
    }
    Tensor::concat(&x, 0)
}

#[traced]
fn diagonal(a: &Tensor) -> Tensor {
    let n = a.dim(0);
    let eye = Tensor::arange(n, DType::I64).one_hot(n, a.dtype());
    (a * eye).sum(-1)
}

#[derive(Clone, Tree)]
struct Kernel {
    log_scale: Tensor,
    log_length: Tensor,
    log_noise: Tensor,
}

#[derive(Clone, Tree)]
struct Posterior {
    mean: Tensor,
    var: Tensor,
}

#[traced]
impl Kernel {
    fn covariance(&self, a: &Tensor, b: &Tensor) -> Tensor {
        let distance = (a.unsqueeze(1) - b.unsqueeze(0)) / self.log_length.exp();
        (distance.square() * -0.5).exp() * (&self.log_scale * 2.0).exp()
    }

    fn gram(&self, x: &Tensor) -> Tensor {
        let n = x.dim(0);
        let eye = Tensor::arange(n, DType::I64).one_hot(n, x.dtype());
        self.covariance(x, x) + eye * (&self.log_noise * 2.0).exp()
    }

    fn log_likelihood(&self, #[nodiff] x: &Tensor, #[nodiff] y: &Tensor) -> Tensor {
        let l = cholesky(&self.gram(x));
        let alpha = solve_lower(&l, y);
        let log_det = diagonal(&l).log().sum(..);
        let n = y.dim(0) as f64;
        -(alpha.square().sum(..) * 0.5 + log_det + n / 2.0 * (2.0 * PI).ln())
    }

    fn posterior(&self, x: &Tensor, y: &Tensor, at: &Tensor) -> Posterior {
        let l = cholesky(&self.gram(x));
        let alpha = solve_lower(&l, y);
        let cross = self.covariance(x, at);
        let columns: Vec<Tensor> = (0..at.dim(0))
            .map(|j| {
                solve_lower(
                    &l,
                    &cross.slice([0, j], [x.dim(0), j + 1], [1, 1]).squeeze(1),
                )
            })
            .collect();
        let v = Tensor::stack(&columns, 1);
        Posterior {
            mean: alpha.matmul(&v),
            var: (&self.log_scale * 2.0).exp() - v.square().sum(0),
        }
    }
}

const POINTS: usize = 6;

fn kernel() -> Kernel {
    Kernel {
        log_scale: Tensor::scalar(0.2),
        log_length: Tensor::scalar(-0.3),
        log_noise: Tensor::scalar(-1.5),
    }
}

fn data() -> (Tensor, Tensor) {
    let x = noise(&[POINTS], 1) * 2.0;
    let y = (&x * 1.5).sin() + noise(&[POINTS], 2) * 0.1;
    evaluate(&(x.clone(), y.clone())).unwrap();
    (x, y)
}

/// Returns the inverse and the determinant of a matrix, by Gauss and Jordan.
fn inverse(a: &[f64], n: usize) -> (Vec<Vec<f64>>, f64) {
    let unit = |i: usize, j: usize| f64::from(i == j);
    let row = |i: usize| {
        (0..n)
            .map(|j| a[i * n + j])
            .chain((0..n).map(|j| unit(i, j)))
            .collect()
    };
    let mut rows: Vec<Vec<f64>> = (0..n).map(row).collect();
    let mut det = 1.0;
    for i in 0..n {
        let pivot = rows[i][i];
        det *= pivot;
        rows[i].iter_mut().for_each(|v| *v /= pivot);
        for r in (0..n).filter(|r| *r != i) {
            let factor = rows[r][i];
            for c in 0..2 * n {
                rows[r][c] -= factor * rows[i][c];
            }
        }
    }
    (rows.into_iter().map(|row| row[n..].to_vec()).collect(), det)
}

fn covariance_by_loops(kernel: &Kernel, a: f64, b: f64) -> f64 {
    let (scale, length) = (
        kernel.log_scale.item::<f64>(),
        kernel.log_length.item::<f64>(),
    );
    (-0.5 * ((a - b) / length.exp()).powi(2)).exp() * (2.0 * scale).exp()
}

fn gram_by_loops(kernel: &Kernel, x: &[f64]) -> Vec<f64> {
    let noise = (2.0 * kernel.log_noise.item::<f64>()).exp();
    let pairs = (0..x.len()).flat_map(|i| (0..x.len()).map(move |j| (i, j)));
    pairs
        .map(|(i, j)| covariance_by_loops(kernel, x[i], x[j]) + noise * f64::from(i == j))
        .collect()
}

#[test]
fn the_decomposition_multiplies_to_the_matrix() {
    let l = cholesky(&kernel().gram(&data().0));
    near(
        "l l^T",
        &entries(&l.matmul(l.t())),
        &entries(&kernel().gram(&data().0)),
        1e-14,
    )
    .unwrap();
    let l = entries(&l);
    assert!((0..POINTS).all(|i| (i + 1..POINTS).all(|j| l[i * POINTS + j] == 0.0)));
}

#[test]
fn likelihood_and_posterior_are_those_of_plain_loops() {
    let (kernel, (x, y)) = (kernel(), data());
    let (xs, ys) = (entries(&x), entries(&y));
    let (inv, det) = inverse(&gram_by_loops(&kernel, &xs), POINTS);
    let quadratic = |a: &[f64], b: &[f64]| -> f64 {
        (0..POINTS)
            .map(|i| (0..POINTS).map(|j| a[i] * inv[i][j] * b[j]).sum::<f64>())
            .sum()
    };
    let expected = -0.5 * (quadratic(&ys, &ys) + det.ln() + POINTS as f64 * (2.0 * PI).ln());
    let found = kernel.log_likelihood(&x, &y);
    near("the likelihood", &entries(&found), &[expected], 1e-11).unwrap();

    let at = [-0.7, 0.1, 0.9];
    let posterior = kernel.posterior(&x, &y, &Tensor::from(at));
    let cross = at.map(|at| {
        xs.iter()
            .map(|x| covariance_by_loops(&kernel, *x, at))
            .collect()
    });
    let mean = cross.each_ref().map(|k: &Vec<f64>| quadratic(k, &ys));
    let var = cross
        .each_ref()
        .map(|k| covariance_by_loops(&kernel, 0.0, 0.0) - quadratic(k, k));
    near("the mean", &entries(&posterior.mean), &mean, 1e-11).unwrap();
    near("the variance", &entries(&posterior.var), &var, 1e-11).unwrap();
}

#[test]
fn the_derivative_of_the_likelihood_is_right() {
    let (x, y) = data();
    Companions {
        call: &|kernel: &Kernel| kernel.log_likelihood(&x, &y),
        vjp: &|kernel, ct| {
            let (y, pullback) = kernel.log_likelihood_vjp(&x, &y);
            (y, pullback(ct))
        },
        jvp: &|kernel, dkernel| kernel.log_likelihood_jvp((&x, &y), dkernel),
    }
    .check(&kernel());
}

#[test]
fn fitting_raises_the_likelihood_and_a_step_plans_nothing() {
    let (x, y) = data();
    let mut kernel = kernel();
    let mut values = Vec::new();
    for i in 0..30 {
        let mut step = || {
            let (value, grads) = kernel.log_likelihood_value_and_grad(&x, &y);
            kernel = gradloom::tree::add(&kernel, &gradloom::tree::scale(&grads.this, 0.02));
            values.push(value.item::<f64>());
        };
        if i < 3 {
            step();
        } else {
            plans_nothing(step);
        }
    }
    assert!(
        values.windows(2).all(|pair| pair[0] < pair[1]),
        "{values:?}"
    );
}

#[test]
fn a_second_call_is_not_recorded() {
    assert_eq!(cholesky::RECORDED, None);
    assert_eq!(solve_lower::RECORDED, None);
    assert_eq!(Kernel::LOG_LIKELIHOOD_RECORDED, None);
    assert_eq!(Kernel::POSTERIOR_RECORDED, None);
    let (kernel, (x, y)) = (kernel(), data());
    finds(|| kernel.log_likelihood(&x, &y));
    finds(|| kernel.log_likelihood_grad(&x, &y).this);
    finds(|| kernel.posterior(&x, &y, &x));
}
