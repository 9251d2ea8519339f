use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x.cast(DType::F32) + x.cast(DType::F64)
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
