use gradloom::prelude::*;

#[traced]
fn net(#[shape(B, 784)] x: &Tensor, #[shape(784, 128)] w1: &Tensor, #[shape(64, 10)] w2: &Tensor) -> Tensor {
    let h = x.matmul(w1);
    let y = h.matmul(w2);
    y.tanh()
}

fn main() {}
