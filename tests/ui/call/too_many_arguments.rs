use gradloom::prelude::*;

#[traced]
fn g(x: &Tensor) -> Tensor {
    x.tanh()
}

#[traced]
fn f(x: &Tensor) -> Tensor {
    g(x, 2).sin()
}

fn main() {}
