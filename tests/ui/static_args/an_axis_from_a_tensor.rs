use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let axis = x.argmax(0);
    x.sum(axis)
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
