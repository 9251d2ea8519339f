use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 3)] x: &Tensor, #[shape(3, 4)] w: &Tensor) -> Tensor {
    let x = x.matmul(w);
    let x = x.relu();
    x.matmul(w)
}

fn main() {}
