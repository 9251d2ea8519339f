use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x.tanh(1)
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
