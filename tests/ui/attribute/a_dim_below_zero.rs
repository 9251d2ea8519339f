use gradloom::prelude::*;

#[traced]
fn f(#[shape(2 - 3)] x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
