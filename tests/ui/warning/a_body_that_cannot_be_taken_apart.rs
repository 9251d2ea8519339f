#![deny(deprecated)]
use gradloom::prelude::*;

fn sizes() -> Vec<f64> {
    vec![1.0, 2.0]
}

#[traced]
fn stacked(x: &Tensor) -> Tensor {
    let parts: Vec<Tensor> = sizes().into_iter().map(|k| x * k).collect();
    Tensor::concat(&[&parts[0], &parts[1]], 0)
}

fn main() {}
