#![deny(warnings)]

use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let y = x.tanh();
    x.sin()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
