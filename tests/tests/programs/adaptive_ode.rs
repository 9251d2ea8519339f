//! The Bogacki-Shampine method on logistic growth. It reads its error estimate to choose the next
//! step.

use gradloom::prelude::*;
use gradloom_tests::derivatives::{entries, near};
use gradloom_tests::observe::makes_no_plan;

#[traced]
fn growth(y: &Tensor, rate: &Tensor) -> Tensor {
    y * (1.0 - y) * rate
}

#[traced]
fn solve(y: &Tensor, rate: &Tensor, until: f64, tolerance: f64) -> Tensor {
    let mut y = y.clone();
    let (mut t, mut h) = (0.0, 0.1);
    while t < until {
        let step = f64::min(h, until - t);
        let k1 = growth(&y, rate);
        let k2 = growth(&(&y + &k1 * (step / 2.0)), rate);
        let k3 = growth(&(&y + &k2 * (step * 0.75)), rate);
        let next = &y + (&k1 * (2.0 / 9.0) + &k2 * (1.0 / 3.0) + &k3 * (4.0 / 9.0)) * step;
        let k4 = growth(&next, rate);
        let error = k1 * (-5.0 / 72.0) + k2 * (1.0 / 12.0) + k3 * (1.0 / 9.0) - k4 * 0.125;
        let error = (error * step).abs().max(..).item::<f64>();
        if error <= tolerance {
            y = next;
            t += step;
        }
        h = step * (0.9 * (tolerance / error).cbrt()).clamp(0.2, 5.0);
    }
    y
}

const UNTIL: f64 = 2.0;
const TOLERANCE: f64 = 1e-7;

/// Returns the solution and its derivatives with respect to the start and the rate.
fn closed_form(y: f64, rate: f64) -> [f64; 3] {
    let grown = (rate * UNTIL).exp();
    let below = 1.0 + y * (grown - 1.0);
    let end = y * grown / below;
    [end, grown / below.powi(2), UNTIL * end * (1.0 - end)]
}

#[test]
fn solution_and_gradient_are_those_of_the_closed_form() {
    for (y, rate) in [(0.1, 1.5), (0.4, -0.7), (0.7, 2.5)] {
        let (start, r) = (Tensor::scalar(y), Tensor::scalar(rate));
        let [end, by_start, by_rate] = closed_form(y, rate);
        let (value, grads) = solve::value_and_grad(&start, &r, UNTIL, TOLERANCE);
        near("the end", &entries(&value), &[end], 1e-5).unwrap();
        near("by the start", &entries(&grads.y), &[by_start], 1e-4).unwrap();
        near("by the rate", &entries(&grads.rate), &[by_rate], 1e-4).unwrap();
        let one = r.ones_like();
        let (_, tangent) = solve::jvp((&start, &r, UNTIL, TOLERANCE), (&start.zeros_like(), &one));
        near("the tangent", &entries(&tangent), &[by_rate], 1e-4).unwrap();
    }
}

#[test]
fn recorded_names_the_read_of_a_value() {
    let why = solve::RECORDED.expect("it reads values");
    assert!(why.contains("item"), "{why}");
}

#[test]
fn solutions_share_plans() {
    let (start, rate) = (Tensor::scalar(0.3), Tensor::scalar(1.1));
    let step = || {
        let (value, grads) = solve::value_and_grad(&start, &rate, UNTIL, 1e-6);
        evaluate(&(value, grads.y, grads.rate)).unwrap();
    };
    // The first solution finds out which numbers change. In the second they are leaves.
    step();
    step();
    makes_no_plan(step);
}
