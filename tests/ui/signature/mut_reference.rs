use gradloom::prelude::*;

#[traced]
fn f(x: &mut Tensor) -> Tensor {
    *x = x.tanh();
    x.clone()
}

fn main() {
    f(&mut Tensor::scalar(1.0f32));
}
