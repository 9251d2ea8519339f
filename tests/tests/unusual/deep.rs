//! Expressions that are nested a thousand deep.

use gradloom::prelude::*;

#[traced]
fn terms(x: &Tensor) -> Tensor {
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x +
    x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x
}

#[traced]
fn methods(x: &Tensor) -> Tensor {
    x
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
        .sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin().sin()
}

#[test]
fn runs() {
    let x = Tensor::scalar(0.5f64);
    assert_eq!(terms(&x).item::<f64>(), 500.5);
    assert_eq!(terms::grad(&x).x.item::<f64>(), 1001.0);
    assert!(methods(&x).item::<f64>() > 0.0);
}
