use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    *x * 2.0
}

fn main() {}
