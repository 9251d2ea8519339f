use gradloom::prelude::*;

fn back(x: &Tensor, ct: &Tensor) -> Tensor {
    x * ct
}

#[traced(vjp = back)]
fn f(x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
