#![deny(warnings)]

use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let mut y = x.tanh();
    y = x.sin();
    y
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
