//! A neural differential equation, solved by the Runge-Kutta method of order 4 and by an adaptive
//! method.

use gradloom::prelude::*;
use gradloom_tests::derivatives::{Companions, entries, near};
use gradloom_tests::noise;
use gradloom_tests::observe::{finds, makes_no_plan, plans_nothing};

#[derive(Clone, Tree)]
struct Field {
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
}

/// A step that an adaptive method tries.
#[derive(Clone, Tree)]
struct Trial {
    y: Tensor,
    error: Tensor,
}

#[traced]
impl Field {
    fn new(key: Key, dim: usize, hidden: usize) -> Self {
        let (a, b) = key.split();
        Field {
            w1: a.normal([dim, hidden], DType::F64) * 0.7,
            b1: Tensor::zeros([hidden], DType::F64),
            w2: b.normal([hidden, dim], DType::F64) * 0.7,
        }
    }

    /// Returns the slope at `y`.
    fn slope(&self, t: f64, y: &Tensor) -> Tensor {
        (y.matmul(&self.w1) + &self.b1 * t.cos())
            .tanh()
            .matmul(&self.w2)
    }

    fn rk4_step(&self, t: f64, h: f64, y: &Tensor) -> Tensor {
        let k1 = self.slope(t, y);
        let k2 = self.slope(t + h / 2.0, &(y + &k1 * (h / 2.0)));
        let k3 = self.slope(t + h / 2.0, &(y + &k2 * (h / 2.0)));
        let k4 = self.slope(t + h, &(y + &k3 * h));
        y + (k1 + 2.0 * k2 + 2.0 * k3 + k4) * (h / 6.0)
    }

    /// Returns the solution at the given times, with `substeps` steps between two of them.
    fn trajectory(&self, y: &Tensor, times: &[f64], substeps: usize) -> Vec<Tensor> {
        let mut y = y.clone();
        let mut path = vec![y.clone()];
        for pair in times.windows(2) {
            let h = (pair[1] - pair[0]) / substeps as f64;
            for i in 0..substeps {
                y = self.rk4_step(pair[0] + i as f64 * h, h, &y);
            }
            path.push(y.clone());
        }
        path
    }

    /// Takes a step of the methods of Heun and Euler.
    fn heun(&self, t: f64, h: f64, y: &Tensor) -> Trial {
        let k1 = self.slope(t, y);
        let k2 = self.slope(t + h, &(y + &k1 * h));
        Trial {
            y: y + (&k1 + &k2) * (h / 2.0),
            error: ((k2 - k1) * (h / 2.0)).abs().max(..),
        }
    }

    fn adaptive(&self, y: &Tensor, until: f64, tolerance: f64) -> Tensor {
        let mut y = y.clone();
        let (mut t, mut h) = (0.0, 0.1);
        while t < until {
            let step = f64::min(h, until - t);
            let trial = self.heun(t, step, &y);
            let error = trial.error.item::<f64>();
            if error < tolerance {
                t += step;
                y = trial.y;
            }
            h = step * (0.9 * (tolerance / error).sqrt()).clamp(0.3, 3.0);
        }
        y
    }
}

#[traced]
fn loss(
    field: &Field,
    #[nodiff] start: &Tensor,
    #[nodiff] target: &Tensor,
    times: &[f64],
) -> Tensor {
    let path = field.trajectory(start, times, 2);
    let path = Tensor::stack(&path, 0);
    (path - target).square().mean(..)
}

#[traced]
fn adaptive_loss(field: &Field, #[nodiff] start: &Tensor, #[nodiff] target: &Tensor) -> Tensor {
    (field.adaptive(start, UNTIL, 1e-4) - target)
        .square()
        .mean(..)
}

const UNTIL: f64 = 1.0;
const TIMES: [f64; 4] = [0.0, 0.3, 0.7, UNTIL];

fn field() -> Field {
    let field = Field::new(Key::new(3), 2, 4);
    let field = Field {
        b1: noise(&[4], 9),
        ..field
    };
    evaluate(&field).unwrap();
    field
}

fn slope_by_loops(field: &Field, t: f64, y: &[f64]) -> Vec<f64> {
    let (w1, b1, w2) = (entries(&field.w1), entries(&field.b1), entries(&field.w2));
    let n = b1.len();
    let hidden: Vec<f64> = (0..n)
        .map(|j| (0..2).map(|i| y[i] * w1[i * n + j]).sum::<f64>() + b1[j] * t.cos())
        .map(f64::tanh)
        .collect();
    (0..2)
        .map(|i| (0..n).map(|j| hidden[j] * w2[j * 2 + i]).sum())
        .collect()
}

/// Returns the end of the method of order 4 with 4000 steps.
fn end_by_loops(field: &Field, mut y: Vec<f64>) -> Vec<f64> {
    let h = UNTIL / 1000.0;
    let along = |y: &[f64], k: &[f64], h: f64| -> Vec<f64> {
        y.iter().zip(k).map(|(y, k)| y + k * h).collect()
    };
    for i in 0..1000 {
        let t = f64::from(i) * h;
        let k1 = slope_by_loops(field, t, &y);
        let k2 = slope_by_loops(field, t + h / 2.0, &along(&y, &k1, h / 2.0));
        let k3 = slope_by_loops(field, t + h / 2.0, &along(&y, &k2, h / 2.0));
        let k4 = slope_by_loops(field, t + h, &along(&y, &k3, h));
        for i in 0..2 {
            y[i] += (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]) * h / 6.0;
        }
    }
    y
}

fn start() -> Tensor {
    Tensor::from([[0.8f64, -0.5]])
}

#[test]
fn both_methods_agree_with_plain_loops() {
    let field = field();
    let expected = end_by_loops(&field, entries(&start()));
    let path = field.trajectory(&start(), &TIMES, 6);
    near("order 4", &entries(&path[3]), &expected, 1e-6).unwrap();
    let adaptive = field.adaptive(&start(), UNTIL, 1e-7);
    near("adaptive", &entries(&adaptive), &expected, 1e-5).unwrap();
}

#[test]
fn the_derivative_through_the_steps_is_right() {
    let target = noise(&[4, 1, 2], 5);
    Companions {
        call: &|field: &Field| loss(field, &start(), &target, &TIMES),
        vjp: &|field, ct| {
            let (y, pullback) = loss::vjp(field, &start(), &target, &TIMES);
            (y, pullback(ct))
        },
        jvp: &|field, dfield| loss::jvp((field, &start(), &target, &TIMES), dfield),
    }
    .check(&field());
}

#[test]
fn both_gradients_agree() {
    let (field, target) = (field(), noise(&[1, 2], 5));
    let end = |field: &Field| {
        let path = field.trajectory(&start(), &[0.0, UNTIL], 8);
        (&path[1] - &target).square().mean(..)
    };
    let expected = grad(end)(&field);
    let found = adaptive_loss::grad(&field, &start(), &target).field;
    near("the gradient", &entries(&found), &entries(&expected), 1e-3).unwrap();
}

#[test]
fn training_fits_a_trajectory_and_a_step_plans_nothing() {
    let mut field = field();
    let truth = Field::new(Key::new(8), 2, 4);
    let target = Tensor::stack(&truth.trajectory(&start(), &TIMES, 2), 0);
    evaluate(&target).unwrap();
    let adam = gradloom::optim::Adam {
        lr: 0.05,
        ..Default::default()
    };
    let mut state = adam.init(&field);
    let mut losses = Vec::new();
    for i in 0..60 {
        let mut step = || {
            let (value, grads) = loss::value_and_grad(&field, &start(), &target, &TIMES);
            (field, state) = adam.step(&field, &grads.field, &state);
            losses.push(value.item::<f64>());
        };
        if i < 3 {
            step();
        } else {
            plans_nothing(step);
        }
    }
    assert!(losses[59] < 0.05 * losses[0], "{losses:?}");
}

#[test]
fn only_the_method_that_reads_its_error_is_recorded() {
    assert_eq!(Field::RK4_STEP_RECORDED, None);
    assert_eq!(Field::TRAJECTORY_RECORDED, None);
    assert_eq!(Field::HEUN_RECORDED, None);
    assert_eq!(loss::RECORDED, None);
    // The values of the error decide the next step.
    assert!(Field::ADAPTIVE_RECORDED.unwrap().contains("item"));
    assert!(adaptive_loss::RECORDED.unwrap().contains("item"));
    let (field, target) = (field(), noise(&[4, 1, 2], 5));
    finds(|| field.trajectory(&start(), &TIMES, 2));
    finds(|| loss::grad(&field, &start(), &target, &TIMES).field);
    let target = noise(&[1, 2], 5);
    let step = || evaluate(&adaptive_loss::grad(&field, &start(), &target).field).unwrap();
    // The second gradient still makes plans, because the reads of the first found nothing computed.
    (0..3).for_each(|_| step());
    makes_no_plan(step);
}
