use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 6)] x: &Tensor) -> Tensor {
    let odd = Tensor::concat(&[x, x], 0);
    odd.reshape([7])
}

fn main() {}
