//! A Kalman filter. The variances of its noise are learned from the likelihood.

use gradloom::prelude::*;
use gradloom_tests::derivatives::{differences, entries, near, noise_like};
use gradloom_tests::observe::{finds, plans_nothing};

/// A normal distribution of a vector.
#[derive(Clone, Tree)]
struct Gaussian {
    mean: Tensor,
    cov: Tensor,
}

/// The sum of two independent vectors.
#[traced]
impl Gaussian {
    #[traced]
    fn plus(self, other: Gaussian) -> Gaussian {
        Gaussian {
            mean: self.mean + other.mean,
            cov: self.cov + other.cov,
        }
    }
}

/// A linear map.
#[derive(Clone, Tree)]
struct Linear(Tensor);

/// The image of a normal distribution.
#[traced]
impl Linear {
    #[traced]
    fn apply(&self, x: &Gaussian) -> Gaussian {
        Gaussian {
            mean: self.0.matmul(&x.mean),
            cov: self.0.matmul(&x.cov).matmul(self.0.t()),
        }
    }
}

#[derive(Clone, Tree)]
struct Model {
    dynamics: Linear,
    sensor: Linear,
    log_process: Tensor,
    log_sensor: Tensor,
    start: Gaussian,
}

#[traced]
impl Model {
    fn noise(&self, log_variance: &Tensor, n: usize) -> Gaussian {
        let eye = Tensor::arange(n, DType::I64).one_hot(n, DType::F64);
        Gaussian {
            mean: Tensor::zeros([n], DType::F64),
            cov: eye * log_variance.exp(),
        }
    }

    #[traced]
    fn prior(&self) -> Gaussian {
        self.start.clone()
    }

    #[traced]
    fn predict(&self, belief: &Gaussian) -> Gaussian {
        let noise = self.noise(&self.log_process, belief.mean.dim(0));
        self.dynamics.apply(belief).plus(noise)
    }

    /// The posterior, and the logarithm of the density of the measurement.
    fn update(&self, belief: &Gaussian, y: &Tensor) -> (Gaussian, Tensor) {
        let expected = self
            .sensor
            .apply(belief)
            .plus(self.noise(&self.log_sensor, 1));
        let variance = expected.cov.reshape([1]);
        let surprise = y - &expected.mean;
        let gain = belief.cov.matmul(self.sensor.0.t()) / &variance; // [n, 1]
        let mean = &belief.mean + gain.matmul(&surprise);
        let cov = &belief.cov - gain.matmul(self.sensor.0.matmul(&belief.cov));
        let tau = std::f64::consts::TAU;
        let log_density = -0.5 * (surprise.square() / &variance + (variance * tau).log());
        (Gaussian { mean, cov }, log_density.sum(..))
    }

    fn log_likelihood(&self, #[nodiff] ys: &[Tensor]) -> Tensor {
        let mut belief = self.prior();
        let mut total = Tensor::scalar(0.0f64);
        for y in ys {
            let (next, density) = self.update(&self.predict(&belief), y);
            belief = next;
            total += density;
        }
        total
    }
}

/// The same in plain numbers, for a position and a velocity.
fn reference(log_q: f64, log_r: f64, ys: &[f64]) -> f64 {
    let (q, r) = (log_q.exp(), log_r.exp());
    let (mut m, mut p) = ([0.0, 1.0], [[1.0, 0.0], [0.0, 1.0]]);
    let mut total = 0.0;
    for y in ys {
        m = [m[0] + 0.1 * m[1], m[1]];
        let a = [[p[0][0] + 0.1 * p[1][0], p[0][1] + 0.1 * p[1][1]], p[1]];
        p = [
            [a[0][0] + 0.1 * a[0][1] + q, a[0][1]],
            [a[1][0] + 0.1 * a[1][1], a[1][1] + q],
        ];
        let s = p[0][0] + r;
        let e = y - m[0];
        let k = [p[0][0] / s, p[1][0] / s];
        m = [m[0] + k[0] * e, m[1] + k[1] * e];
        p = [
            [p[0][0] - k[0] * p[0][0], p[0][1] - k[0] * p[0][1]],
            [p[1][0] - k[1] * p[0][0], p[1][1] - k[1] * p[0][1]],
        ];
        total += -0.5 * (e * e / s + (s * std::f64::consts::TAU).ln());
    }
    total
}

fn model(log_process: f64, log_sensor: f64) -> Model {
    Model {
        dynamics: Linear(Tensor::from([[1.0f64, 0.1], [0.0, 1.0]])),
        sensor: Linear(Tensor::from([[1.0f64, 0.0]])),
        log_process: Tensor::scalar(log_process),
        log_sensor: Tensor::scalar(log_sensor),
        start: Gaussian {
            mean: Tensor::from([0.0f64, 1.0]),
            cov: Tensor::arange(2, DType::I64).one_hot(2, DType::F64),
        },
    }
}

fn measurements() -> (Vec<f64>, Vec<Tensor>) {
    let numbers: Vec<f64> = (0..12)
        .map(|t| 0.1 * t as f64 + 0.3 * (1.7 * t as f64).sin())
        .collect();
    let ys = numbers.iter().map(|&y| Tensor::from([y])).collect();
    (numbers, ys)
}

#[test]
fn the_likelihood_is_that_of_plain_numbers() {
    let (numbers, ys) = measurements();
    for (q, r) in [(-3.0, -1.0), (0.5, 0.2)] {
        let (value, grads) = model(q, r).log_likelihood_value_and_grad(&ys);
        near(
            "the value",
            &entries(&value),
            &[reference(q, r, &numbers)],
            1e-12,
        )
        .unwrap();
        let e = 1e-4;
        let by_q = reference(q + e, r, &numbers) - reference(q - e, r, &numbers);
        let by_r = reference(q, r + e, &numbers) - reference(q, r - e, &numbers);
        let slopes = entries(&(grads.this.log_process, grads.this.log_sensor));
        near(
            "the slopes",
            &slopes,
            &[by_q / (2.0 * e), by_r / (2.0 * e)],
            1e-6,
        )
        .unwrap();
    }
}

#[test]
fn the_gradient_of_the_whole_model_is_right() {
    let (_, ys) = measurements();
    let model = model(-3.0, -1.0);
    let dmodel = noise_like(&model, 1);
    let slope = gradloom::tree::dot(&model.log_likelihood_grad(&ys).this, &dmodel);
    let expected = differences(
        &|model: &Model| model.log_likelihood(&ys),
        &model,
        &dmodel,
        1e-3,
    );
    near("the slope", &entries(&slope), &expected, 1e-6).unwrap();
}

#[test]
fn learning_makes_the_measurements_likelier() {
    let (_, ys) = measurements();
    let mut model = model(-3.0, -1.0);
    let before = model.log_likelihood(&ys).item::<f64>();
    for _ in 0..20 {
        let gradient = model.log_likelihood_grad(&ys).this;
        model.log_process = &model.log_process + gradient.log_process * 0.1;
        model.log_sensor = &model.log_sensor + gradient.log_sensor * 0.1;
        evaluate(&model).unwrap();
    }
    assert!(model.log_likelihood(&ys).item::<f64>() > before + 1.0);
}

#[test]
fn a_second_step_records_and_plans_nothing() {
    assert_eq!(Gaussian::PLUS_RECORDED, None);
    assert_eq!(Linear::APPLY_RECORDED, None);
    assert_eq!(Model::PREDICT_RECORDED, None);
    assert_eq!(Model::UPDATE_RECORDED, None);
    assert_eq!(Model::LOG_LIKELIHOOD_RECORDED, None);
    let (_, ys) = measurements();
    let mut model = model(-3.0, -1.0);
    finds(|| model.predict(&model.start));
    finds(|| model.update(&model.start, &ys[0]));
    finds(|| model.log_likelihood_grad(&ys).this);
    let mut step = || {
        let (value, grads) = model.log_likelihood_value_and_grad(&ys);
        model.log_sensor = &model.log_sensor + grads.this.log_sensor * 0.1;
        evaluate((&value, &model)).unwrap();
    };
    step();
    plans_nothing(step);
}
