use gradloom::prelude::*;

#[traced]
fn f(#[shape(B / 2)] x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
