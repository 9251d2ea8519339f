use gradloom::prelude::*;

#[traced]
fn net(#[shape(B, 784)] x: &Tensor, #[shape(784, 128)] w: &Tensor, #[shape(64)] bias: &Tensor) -> Tensor {
    let h = x.matmul(w).tanh();
    let scaled = h * 0.5;
    scaled + bias
}

fn main() {}
