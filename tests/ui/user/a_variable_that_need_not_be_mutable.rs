#![deny(warnings)]

use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let mut y = x.tanh();
    y.sin()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
