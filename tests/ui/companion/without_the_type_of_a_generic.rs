use gradloom::prelude::*;

#[traced]
fn repeat<const N: usize>(x: &Tensor) -> Tensor {
    x * (N as f32)
}

fn main() {
    let x = &Tensor::scalar(1.0f32);
    repeat::grad(x);
}
