use gradloom::prelude::*;

#[traced(check, check)]
fn f(#[shape(B)] x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
