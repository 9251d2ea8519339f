use gradloom::prelude::*;

#[traced]
fn g(x: &Tensor) -> Tensor {
    x.tanh()
}

#[traced]
fn f(x: &Tensor) -> Tensor {
    let (a, b) = g(x);
    a * b
}

fn main() {}
