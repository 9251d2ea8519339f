use gradloom::prelude::*;

#[traced(order = 2, order = 2)]
fn f(x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
