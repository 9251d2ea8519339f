use gradloom::prelude::*;

#[traced]
fn f(xs: &[Tensor]) -> Tensor {
    xs[0].tanh()
}

fn main() {
    f(&[Tensor::scalar(1.0f32)]);
}
