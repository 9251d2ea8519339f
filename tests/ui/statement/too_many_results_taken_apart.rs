use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let (a, b) = x.tanh();
    a + b
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
