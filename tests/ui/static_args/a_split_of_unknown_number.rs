use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let parts = x.split(0);
    parts[0].clone()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
