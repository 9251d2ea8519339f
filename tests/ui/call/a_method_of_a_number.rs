use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x.powi(2)
}

fn main() {}
