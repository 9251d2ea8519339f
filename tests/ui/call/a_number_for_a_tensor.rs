use gradloom::prelude::*;

#[traced]
fn g(x: &Tensor, y: &Tensor) -> Tensor {
    x * y
}

#[traced]
fn f(x: &Tensor) -> Tensor {
    g(x, 2.0)
}

fn main() {}
