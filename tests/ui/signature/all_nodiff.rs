use gradloom::prelude::*;

#[traced]
fn f(#[nodiff] x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
