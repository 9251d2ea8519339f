use gradloom::prelude::*;

#[traced]
fn g(x: &Tensor) -> Result<Tensor> {
    Ok(x.tanh())
}

#[traced]
fn f(x: &Tensor) -> Tensor {
    g(x).sin()
}

fn main() {}
