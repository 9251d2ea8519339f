use gradloom::prelude::*;

#[traced(order = "second")]
fn f(x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
