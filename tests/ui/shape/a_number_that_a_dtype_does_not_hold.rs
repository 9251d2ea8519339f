use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x + x.cast(DType::I32) * 1099511627776i64
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
