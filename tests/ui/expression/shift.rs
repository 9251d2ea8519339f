use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x << 2
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
