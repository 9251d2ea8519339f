use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 3)] x: &Tensor, #[shape(3)] y: &Tensor) -> Tensor {
    Tensor::concat(&[x, y], 0)
}

fn main() {}
