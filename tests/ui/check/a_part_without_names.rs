use gradloom::prelude::*;

#[traced(check(classes = 10))]
fn f(#[shape(B)] x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
