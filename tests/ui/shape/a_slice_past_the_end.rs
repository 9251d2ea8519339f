use gradloom::prelude::*;

#[traced]
fn f(#[shape(2, 3)] x: &Tensor) -> Tensor {
    x.slice([0, 1], [2, 4], [1, 1])
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
