use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, #[nodiff] n: usize) -> Tensor {
    x * n as f32
}

fn main() {
    f(&Tensor::scalar(1.0f32), 2);
}
