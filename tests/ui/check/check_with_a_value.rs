use gradloom::prelude::*;

#[traced(check = true)]
fn f(#[shape(B)] x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
