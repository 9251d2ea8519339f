use gradloom::prelude::*;

#[traced]
async fn f(x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {
    drop(f(&Tensor::scalar(1.0f32)));
}
