use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let scale = x.sum(..) as f64;
    x * scale
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
