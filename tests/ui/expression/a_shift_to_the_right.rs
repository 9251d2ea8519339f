use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x >> 1
}

fn main() {}
