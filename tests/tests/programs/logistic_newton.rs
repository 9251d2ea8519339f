//! Logistic regression by Newton's method, with conjugate gradients on products of the Hessian and
//! with the whole Hessian.

use gradloom::prelude::*;
use gradloom::tree;
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::noise;
use gradloom_tests::observe::{finds, plans_nothing};

#[derive(Clone, Tree)]
struct Logistic {
    w: Tensor,
    b: Tensor,
}

#[traced]
impl Logistic {
    fn new(features: usize) -> Self {
        Logistic {
            w: Tensor::zeros([features], DType::F64),
            b: Tensor::scalar(0.0),
        }
    }

    fn from_flat(theta: &Tensor) -> Self {
        let n = theta.dim(0) - 1;
        Logistic {
            w: theta.slice([0], [n], [1]),
            b: theta.slice([n], [n + 1], [1]).squeeze(0),
        }
    }

    fn flat(&self) -> Tensor {
        Tensor::concat(&[&self.w, &self.b.reshape([1])], 0)
    }

    fn logits(&self, x: &Tensor) -> Tensor {
        x.matmul(&self.w) + &self.b
    }
}

#[traced(order = 2)]
fn loss(model: &Logistic, #[nodiff] x: &Tensor, #[nodiff] y: &Tensor, l2: f64) -> Tensor {
    let logits = model.logits(x);
    let data = (logits.softplus() - y * &logits).mean(..);
    data + tree::dot(model, model) * (0.5 * l2)
}

/// Solves `H step = gradient` by conjugate gradients, and returns `model - step`.
#[traced]
fn newton_cg(
    model: &Logistic,
    #[nodiff] x: &Tensor,
    #[nodiff] y: &Tensor,
    l2: f64,
    turns: usize,
) -> Logistic {
    let gradient = loss::grad(model, x, y, l2).model;
    let hessian = |v: &Logistic| loss::hvp((model, x, y, l2), v).1.model;
    let mut step = Logistic::new(model.w.dim(0));
    let mut residual = gradient;
    let mut direction = residual.clone();
    let mut size = tree::dot(&residual, &residual);
    for _ in 0..turns {
        let product = hessian(&direction);
        let length = &size / (tree::dot(&direction, &product) + 1e-300);
        step = tree::add(&step, &tree::scale(&direction, &length));
        residual = tree::sub(&residual, &tree::scale(&product, &length));
        let next = tree::dot(&residual, &residual);
        direction = tree::add(&residual, &tree::scale(&direction, &(&next / &size)));
        size = next;
    }
    tree::sub(model, &step)
}

/// Solves `a x = b` by elimination with pivots.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let n = b.len();
    for i in 0..n {
        let pivot = (i..n)
            .max_by(|&p, &q| a[p][i].abs().total_cmp(&a[q][i].abs()))
            .unwrap();
        a.swap(i, pivot);
        b.swap(i, pivot);
        for r in i + 1..n {
            let factor = a[r][i] / a[i][i];
            for c in i..n {
                a[r][c] -= factor * a[i][c];
            }
            b[r] -= factor * b[i];
        }
    }
    for i in (0..n).rev() {
        for c in i + 1..n {
            b[i] -= a[i][c] * b[c];
        }
        b[i] /= a[i][i];
    }
    b
}

const L2: f64 = 0.1;
const ROWS: usize = 20;
const FEATURES: usize = 3;

fn data() -> (Tensor, Tensor) {
    let x = noise(&[ROWS, FEATURES], 1) * 2.0;
    let truth = Tensor::from([1.5f64, -2.0, 0.5]);
    let y = (x.matmul(&truth) + noise(&[ROWS], 2))
        .gt(0.3)
        .cast(DType::F64);
    evaluate(&(x.clone(), y.clone())).unwrap();
    (x, y)
}

fn hessian_by_loops(model: &Logistic, x: &Tensor) -> Vec<Vec<f64>> {
    let (w, b, x) = (entries(&model.w), model.b.item::<f64>(), entries(x));
    let mut h = vec![vec![0.0; FEATURES + 1]; FEATURES + 1];
    for row in x.chunks(FEATURES) {
        let row: Vec<f64> = row.iter().copied().chain([1.0]).collect();
        let z = row
            .iter()
            .zip(w.iter().chain([&b]))
            .map(|(x, w)| x * w)
            .sum::<f64>();
        let p = 1.0 / (1.0 + (-z).exp());
        for i in 0..=FEATURES {
            for j in 0..=FEATURES {
                h[i][j] += row[i] * row[j] * p * (1.0 - p) / ROWS as f64;
            }
        }
    }
    for (i, row) in h.iter_mut().enumerate() {
        row[i] += L2;
    }
    h
}

fn newton_dense(model: &Logistic, x: &Tensor, y: &Tensor) -> Logistic {
    let theta = model.flat();
    let h = hessian(|t: &Tensor| loss(&Logistic::from_flat(t), x, y, L2))(&theta);
    let g = loss::grad(model, x, y, L2).model.flat();
    let rows = entries(&h)
        .chunks(FEATURES + 1)
        .map(<[f64]>::to_vec)
        .collect();
    let step = Tensor::from(solve(rows, entries(&g)));
    Logistic::from_flat(&(theta - step))
}

#[test]
fn the_hessian_is_that_of_plain_loops() {
    let (x, y) = data();
    let model = Logistic::from_flat(&noise(&[FEATURES + 1], 3));
    let h = hessian(|t: &Tensor| loss(&Logistic::from_flat(t), &x, &y, L2))(&model.flat());
    let expected = hessian_by_loops(&model, &x);
    near("the hessian", &entries(&h), &expected.concat(), 1e-14).unwrap();
    let v = Logistic::from_flat(&noise(&[FEATURES + 1], 4));
    let (_, product) = loss::hvp((&model, &x, &y, L2), &v);
    let v = entries(&v);
    let expected: Vec<f64> = expected
        .iter()
        .map(|row| row.iter().zip(&v).map(|(h, v)| h * v).sum())
        .collect();
    near("the product", &entries(&product.model), &expected, 1e-14).unwrap();
}

#[test]
fn both_newton_methods_find_the_minimum() {
    let (x, y) = data();
    let (mut a, mut b) = (Logistic::new(FEATURES), Logistic::new(FEATURES));
    for _ in 0..8 {
        a = newton_cg(&a, &x, &y, L2, FEATURES + 1);
        b = newton_dense(&b, &x, &y);
        near("both methods", &entries(&a), &entries(&b), 1e-12).unwrap();
    }
    let gradient = loss::grad(&a, &x, &y, L2).model;
    assert!(tree::norm(&gradient).item::<f64>() < 1e-12);
}

#[test]
fn the_derivative_of_the_loss_is_right() {
    let (x, y) = data();
    Companions {
        call: &|model: &Logistic| loss(model, &x, &y, L2),
        vjp: &|model, ct| {
            let (y, pullback) = loss::vjp(model, &x, &y, L2);
            (y, pullback(ct))
        },
        jvp: &|model, dmodel| loss::jvp((model, &x, &y, L2), dmodel),
    }
    .check(&Logistic::from_flat(&noise(&[FEATURES + 1], 3)));
}

#[test]
fn a_second_step_records_and_plans_nothing() {
    let (x, y) = data();
    let mut model = Logistic::from_flat(&noise(&[FEATURES + 1], 3));
    assert_eq!(loss::RECORDED, None);
    assert_eq!(newton_cg::RECORDED, None);
    assert_eq!(Logistic::LOGITS_RECORDED, None);
    assert_eq!(Logistic::FLAT_RECORDED, None);
    assert_eq!(Logistic::FROM_FLAT_RECORDED, None);
    finds(|| newton_cg(&model, &x, &y, L2, 4));
    let mut step = || {
        model = newton_cg(&model, &x, &y, L2, 4);
        evaluate(&model).unwrap();
    };
    step();
    plans_nothing(&mut step);
}
