use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let mut h = x.tanh();
    h = "h";
    h
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
