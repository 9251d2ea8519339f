use gradloom::prelude::*;

#[traced]
fn f(#[shape(2, T, 3)] x: &Tensor, #[shape(4, 3, T)] y: &Tensor) -> Tensor {
    x.matmul(y)
}

fn main() {}
