use gradloom::prelude::*;

#[traced]
fn f(#[shape] x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
