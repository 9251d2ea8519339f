#![deny(deprecated)]
use gradloom::prelude::*;

#[traced]
fn spread(#[shape(N, 1)] x: &Tensor) -> Tensor {
    let angles = x * Tensor::arange(1000, DType::F32);
    let waves = angles.tanh();
    (&waves * &waves).sum(..)
}

fn main() {}
