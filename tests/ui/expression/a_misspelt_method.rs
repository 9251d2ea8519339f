use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x.tahn()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
