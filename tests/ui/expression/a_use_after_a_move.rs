use gradloom::prelude::*;

#[traced]
fn f(x: Tensor) -> Tensor {
    let y = x;
    let z = x.tanh();
    y + z
}

fn main() {
    f(Tensor::scalar(1.0f32));
}
