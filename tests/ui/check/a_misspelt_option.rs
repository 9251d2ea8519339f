use gradloom::prelude::*;

#[traced(chek)]
fn f(#[shape(B)] x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
