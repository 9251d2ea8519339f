use gradloom::prelude::*;

#[traced(vjp)]
fn f(x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
