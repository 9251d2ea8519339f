use gradloom::prelude::*;

#[traced(check(range(x)))]
fn f(#[shape(B)] x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
