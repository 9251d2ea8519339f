use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, #[nodiff = true] y: &Tensor) -> Tensor {
    x * y
}

fn main() {}
