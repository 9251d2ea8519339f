use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x.cast(DType::F32).select(x, x)
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
