//! The gradient of a validation loss with respect to hyperparameters, through the inner loop.

use gradloom::prelude::*;
use gradloom_tests::derivatives::{differences, entries, near, noise_like};
use gradloom_tests::observe::{finds, plans_nothing};

#[derive(Clone, Tree)]
struct Data {
    x: Tensor,
    y: Tensor,
}

#[derive(Clone, Tree)]
struct Hyper {
    log_penalty: Tensor, // one per feature
    log_rate: Tensor,
}

#[derive(Clone, Copy, Debug, Tree)]
struct Inner {
    #[tree(skip)]
    steps: usize,
    #[tree(skip)]
    momentum: Option<f64>,
}

#[traced]
fn training_loss(w: &Tensor, hyper: &Hyper, #[nodiff] data: &Data) -> Tensor {
    let error = data.x.matmul(w) - &data.y;
    error.square().mean(..) + (hyper.log_penalty.exp() * w.square()).sum(..)
}

#[traced]
fn fit(hyper: &Hyper, #[nodiff] data: &Data, #[nodiff] inner: Inner) -> Tensor {
    let mut w = Tensor::zeros([data.x.dim(1)], DType::F64);
    let mut velocity = w.zeros_like();
    let rate = hyper.log_rate.exp();
    for _ in 0..inner.steps {
        let gradient = training_loss::grad(&w, hyper, data).w;
        velocity = match inner.momentum {
            Some(momentum) => velocity * momentum + gradient,
            None => gradient,
        };
        w = w - &velocity * &rate;
    }
    w
}

#[traced]
fn validation_loss(
    hyper: &Hyper,
    #[nodiff] train: &Data,
    #[nodiff] test: &Data,
    #[nodiff] inner: Inner,
) -> Tensor {
    let w = fit(hyper, train, inner);
    (test.x.matmul(&w) - &test.y).square().mean(..)
}

fn draw(key: Key, n: usize) -> Data {
    let (a, b) = key.split();
    let x = a.normal([n, 3], DType::F64);
    let y = x.matmul(Tensor::from([1.0f64, 0.0, -2.0])) + b.normal([n], DType::F64) * 0.5;
    Data { x, y }
}

/// The minimum of the training loss for one feature.
fn closed_form(x: &[f64], y: &[f64], penalty: f64) -> f64 {
    let n = x.len() as f64;
    let xy: f64 = x.iter().zip(y).map(|(x, y)| x * y).sum();
    let xx: f64 = x.iter().map(|x| x * x).sum();
    (xy / n) / (xx / n + penalty)
}

fn data() -> (Data, Data) {
    let (a, b) = Key::new(5).split();
    let data = (draw(a, 8), draw(b, 20));
    evaluate(&data).unwrap();
    data
}

fn hyper() -> Hyper {
    Hyper {
        log_penalty: Tensor::full([3], -2.0, DType::F64),
        log_rate: Tensor::scalar(-2.0f64),
    }
}

#[test]
fn the_gradient_through_the_loop_is_right() {
    let ((train, test), hyper) = (data(), hyper());
    let by = noise_like(&hyper, 1);
    for momentum in [None, Some(0.5)] {
        let inner = Inner {
            steps: 20,
            momentum,
        };
        let gradient = validation_loss::grad(&hyper, &train, &test, inner).hyper;
        let slope = gradloom::tree::dot(&gradient, &by);
        let run = |hyper: &Hyper| validation_loss(hyper, &train, &test, inner);
        near(
            "the slope",
            &entries(&slope),
            &differences(&run, &hyper, &by, 1e-3),
            1e-8,
        )
        .unwrap();
    }
}

#[test]
fn the_loop_and_its_derivative_converge_to_the_closed_form() {
    let (x, y) = ([1.0f64, 2.0, -1.0], [2.0f64, 3.0, 0.5]);
    let data = Data {
        x: Tensor::from(x).unsqueeze(1),
        y: Tensor::from(y),
    };
    let hyper = Hyper {
        log_penalty: Tensor::from([-1.0f64]),
        log_rate: Tensor::scalar(-2.0f64),
    };
    let direction = Hyper {
        log_penalty: Tensor::from([1.0f64]),
        log_rate: Tensor::scalar(0.0f64),
    };
    let inner = Inner {
        steps: 100,
        momentum: None,
    };
    let (w, dw) = fit::jvp((&hyper, &data, inner), &direction);
    let solution = |log: f64| closed_form(&x, &y, log.exp());
    near("the weight", &entries(&w), &[solution(-1.0)], 1e-12).unwrap();
    let slope = (solution(-1.0 + 1e-5) - solution(-1.0 - 1e-5)) / 2e-5;
    near("its slope", &entries(&dw), &[slope], 1e-8).unwrap();
}

#[test]
fn a_second_step_records_and_plans_nothing_and_lowers_the_loss() {
    assert_eq!(training_loss::RECORDED, None);
    assert_eq!(fit::RECORDED, None);
    assert_eq!(validation_loss::RECORDED, None);
    let ((train, test), mut hyper) = (data(), hyper());
    let inner = Inner {
        steps: 20,
        momentum: Some(0.5),
    };
    finds(|| fit(&hyper, &train, inner));
    finds(|| validation_loss::grad(&hyper, &train, &test, inner).hyper);
    let mut step = || {
        let (value, grads) = validation_loss::value_and_grad(&hyper, &train, &test, inner);
        hyper = gradloom::tree::sub(&hyper, &gradloom::tree::scale(&grads.hyper, 0.5));
        evaluate(&hyper).unwrap();
        value.item::<f64>()
    };
    let first = step();
    plans_nothing(|| assert!(step() < first));
}
