use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let h: f32 = x.tanh();
    x * h
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
