use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 3)] x: &Tensor, #[shape(B, 2)] y: &Tensor) -> Tensor {
    Tensor::stack(&[x, y], 0)
}

fn main() {}
