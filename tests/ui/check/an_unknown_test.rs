use gradloom::prelude::*;

#[traced(check(skip(everything)))]
fn f(#[shape(B)] x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
