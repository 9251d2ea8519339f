use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x.sum("rows")
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
