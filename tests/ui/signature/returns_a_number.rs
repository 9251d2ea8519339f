use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> f32 {
    x.tanh().item()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
