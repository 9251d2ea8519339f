use gradloom::prelude::*;

#[traced]
fn f(#[nodiff] x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {
    f::grad(&Tensor::scalar(1.0f32));
}
