//! Newton's square root to a tolerance, and its derivative.

use gradloom::prelude::*;
use gradloom_tests::derivatives::{entries, near};
use gradloom_tests::observe::makes_no_plan;

#[traced]
fn square_root(a: &Tensor) -> Tensor {
    let mut x = a * 0.5 + 0.5;
    loop {
        let error = &x * &x - a;
        if error.abs().max(..).item::<f64>() < 1e-12 {
            break x;
        }
        x = &x - error / (&x * 2.0);
    }
}

#[test]
fn the_root_and_its_derivative_are_right() {
    for a in [0.25, 2.0, 9.0, 50.0] {
        let (root, grads) = square_root::value_and_grad(&Tensor::scalar(a));
        near("the root", &entries(&root), &[f64::sqrt(a)], 1e-12).unwrap();
        near("the slope", &entries(&grads.a), &[0.5 / f64::sqrt(a)], 1e-9).unwrap();
    }
}

#[test]
fn several_roots_at_once_are_right() {
    let a = Tensor::from([0.5f64, 2.0, 7.0]);
    let (root, pullback) = square_root::vjp(&a);
    near("the roots", &entries(&root), &entries(&a.sqrt()), 1e-12).unwrap();
    let slopes = pullback(&a.ones_like());
    near(
        "the slopes",
        &entries(&slopes),
        &entries(&(a.rsqrt() * 0.5)),
        1e-9,
    )
    .unwrap();
}

#[test]
fn a_second_root_reuses_all_plans() {
    let a = Tensor::scalar(3.0);
    let step = || {
        let (root, grads) = square_root::value_and_grad(&a);
        evaluate(&(root, grads.a)).unwrap();
    };
    step();
    makes_no_plan(step);
}
