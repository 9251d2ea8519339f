#![deny(warnings)]
use gradloom::prelude::*;

#[traced]
fn sign(x: &Tensor, y: &Tensor) -> Tensor {
    x * y.sign()
}

fn main() {
    sign(&Tensor::scalar(1.0f32), &Tensor::scalar(2.0f32));
}
