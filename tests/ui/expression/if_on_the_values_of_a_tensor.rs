use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    if x.gt(0.0) { x.exp() } else { x.neg() }
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
