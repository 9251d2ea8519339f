use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    f(&x.tanh())
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
