use gradloom::prelude::*;

#[traced(returns(B, 10))]
fn net(#[shape(B, 784)] x: &Tensor, #[shape(784, 12)] w: &Tensor) -> Tensor {
    let y = x.matmul(w);
    y.tanh()
}

fn main() {}
