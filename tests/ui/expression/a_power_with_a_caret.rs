use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x ^ 2
}

fn main() {}
