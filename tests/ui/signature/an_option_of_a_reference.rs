use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, bias: Option<&Tensor>) -> Tensor {
    x.tanh()
}

fn main() {}
