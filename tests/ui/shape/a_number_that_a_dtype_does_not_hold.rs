use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x + x.cast(DType::I64) * 0.5
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
