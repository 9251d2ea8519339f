use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    missing(x).sin()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
