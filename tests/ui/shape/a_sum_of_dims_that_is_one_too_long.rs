use gradloom::prelude::*;

#[traced]
fn f(#[shape(B + 2, 3)] x: &Tensor, #[shape(B + 3, 3)] y: &Tensor) -> Tensor {
    x + y
}

fn main() {}
