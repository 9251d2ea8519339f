use gradloom::prelude::*;

fn back(x: &Tensor, _: &Tensor, ct: &Tensor) -> Tensor {
    x * ct
}

#[traced(vjp = back, jvp = back)]
fn f(x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
