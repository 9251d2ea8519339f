use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x.swap_axes(0)
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
