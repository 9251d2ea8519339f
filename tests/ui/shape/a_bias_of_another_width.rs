use gradloom::prelude::*;

#[traced]
fn net(#[shape(B, 3)] x: &Tensor, #[shape(4)] bias: &Tensor) -> Tensor {
    let mut h = x.sin();
    h += bias;
    h
}

fn main() {}
