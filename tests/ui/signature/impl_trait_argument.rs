use gradloom::prelude::*;

#[traced]
fn f(x: impl AsRef<Tensor>) -> Tensor {
    x.as_ref().tanh()
}

fn main() {
    f(Tensor::scalar(1.0f32));
}
