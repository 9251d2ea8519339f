use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 3)] x: &Tensor) -> Tensor {
    x.sum(2)
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
