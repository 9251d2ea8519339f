use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let h = x.tanh();
    h.sin();
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
