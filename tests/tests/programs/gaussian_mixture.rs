//! A mixture of normal distributions, fitted by expectation maximisation and by gradient.

use gradloom::optim::Adam;
use gradloom::prelude::*;
use gradloom_tests::derivatives::{differences, entries, near, noise_like};
use gradloom_tests::observe::{finds, plans_nothing};
use std::f64::consts::TAU;

#[derive(Clone, Tree)]
struct Mixture {
    logits: Tensor,     // [K]
    means: Tensor,      // [K, D]
    log_scales: Tensor, // [K, D]
}

#[derive(Clone, Copy, Tree)]
struct Fit {
    #[tree(skip)]
    rounds: usize,
    #[tree(skip)]
    floor: f64,
}

#[traced]
impl Mixture {
    /// The logarithm of the density of each row and component.
    fn joint(&self, #[shape(N, D)] x: &Tensor) -> Tensor {
        let z = (x.unsqueeze(1) - &self.means) / self.log_scales.exp();
        let normaliser = self.log_scales.sum(-1) + 0.5 * TAU.ln() * x.dim(1) as f64;
        self.logits.log_softmax(-1) - normaliser - 0.5 * z.square().sum(-1)
    }

    fn nll(&self, #[nodiff] x: &Tensor) -> Tensor {
        -self.joint(x).logsumexp(-1).mean(..)
    }

    /// One round of expectation maximisation.
    fn refined(&self, x: &Tensor, floor: f64) -> Mixture {
        let share = self.joint(x).softmax(-1); // [N, K]
        let count = share.sum(0); // [K]
        let columns = count.unsqueeze(-1);
        let means = share.t().matmul(x) / &columns;
        let centred = x.unsqueeze(1) - &means; // [N, K, D]
        let variance = (share.unsqueeze(-1) * centred.square()).sum(0) / columns + floor;
        Mixture {
            logits: (count / x.dim(0) as f64).log(),
            means,
            log_scales: variance.log() * 0.5,
        }
    }

    fn expectation_maximisation(&self, x: &Tensor, fit: Fit) -> Self {
        (0..fit.rounds).fold(self.clone(), |mixture, _| mixture.refined(x, fit.floor))
    }
}

fn start() -> Mixture {
    Mixture {
        logits: Tensor::zeros([2], DType::F64),
        means: Tensor::from([[-1.0f64, 0.0], [1.0, 0.5]]),
        log_scales: Tensor::zeros([2, 2], DType::F64),
    }
}

fn data() -> Tensor {
    let [a, b] = Key::new(4).split_n();
    let left = a.normal([40, 2], DType::F64) * 0.5 - 1.5;
    let right = b.normal([60, 2], DType::F64) * Tensor::from([0.7f64, 0.3]) + 1.0;
    let x = Tensor::concat(&[&left, &right], 0);
    evaluate(&x).unwrap();
    x
}

const FIT: Fit = Fit {
    rounds: 30,
    floor: 0.0,
};

#[test]
fn the_loss_is_that_of_plain_loops_and_its_gradient_is_right() {
    let (x, mixture) = (data(), start());
    let means = entries(&mixture.means);
    let total: f64 = entries(&x)
        .chunks(2)
        .map(|row| {
            let density = |mean: &[f64]| {
                let square = (row[0] - mean[0]).powi(2) + (row[1] - mean[1]).powi(2);
                0.5 * (-0.5 * square).exp() / TAU
            };
            -means.chunks(2).map(density).sum::<f64>().ln()
        })
        .sum();
    near(
        "the loss",
        &entries(&mixture.nll(&x)),
        &[total / 100.0],
        1e-13,
    )
    .unwrap();
    let dmixture = noise_like(&mixture, 1);
    let slope = gradloom::tree::dot(&mixture.nll_grad(&x).this, &dmixture);
    let expected = differences(
        &|mixture: &Mixture| mixture.nll(&x),
        &mixture,
        &dmixture,
        1e-3,
    );
    near("the slope", &entries(&slope), &expected, 1e-8).unwrap();
}

#[test]
fn each_round_lowers_the_loss_and_the_last_has_no_gradient() {
    let (x, mut mixture) = (data(), start());
    let mut last = f64::INFINITY;
    for _ in 0..FIT.rounds {
        mixture = mixture.refined(&x, FIT.floor);
        let loss = mixture.nll(&x).item::<f64>();
        assert!(loss <= last + 1e-13, "{loss} after {last}");
        last = loss;
    }
    let all_rounds = start().expectation_maximisation(&x, FIT);
    near(
        "all rounds",
        &entries(&all_rounds),
        &entries(&mixture),
        1e-13,
    )
    .unwrap();
    let gradient = mixture.nll_grad(&x).this;
    assert!(gradloom::tree::norm(&gradient).item::<f64>() < 1e-10);
}

#[test]
fn gradient_descent_finds_the_same_means() {
    let (x, mut mixture) = (data(), start());
    let fitted = start().expectation_maximisation(&x, FIT);
    let adam = Adam {
        lr: 0.05,
        ..Adam::default()
    };
    let mut state = adam.init(&mixture);
    for _ in 0..200 {
        let gradient = mixture.nll_grad(&x).this;
        (mixture, state) = adam.step(&mixture, &gradient, &state);
        evaluate((&mixture, &state)).unwrap();
    }
    near(
        "the means",
        &entries(&mixture.means),
        &entries(&fitted.means),
        1e-2,
    )
    .unwrap();
}

#[test]
fn a_second_step_records_and_plans_nothing() {
    assert_eq!(Mixture::JOINT_RECORDED, None);
    assert_eq!(Mixture::NLL_RECORDED, None);
    assert_eq!(Mixture::REFINED_RECORDED, None);
    assert_eq!(Mixture::EXPECTATION_MAXIMISATION_RECORDED, None);
    let (x, mut mixture) = (data(), start());
    finds(|| mixture.expectation_maximisation(&x, FIT));
    finds(|| mixture.nll_grad(&x).this);
    let mut step = || {
        mixture = mixture.expectation_maximisation(&x, FIT);
        evaluate((&mixture, &mixture.nll_grad(&x))).unwrap();
    };
    step();
    plans_nothing(step);
}
