use gradloom::prelude::*;

#[traced]
fn g(x: &Tensor) -> Tensor {
    x.tanh()
}

#[traced]
fn f(x: &Tensor) -> Tensor {
    g(x.sin())
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
