use gradloom::prelude::*;

#[traced]
fn f(#[shape(-1, 3)] x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
