use gradloom::prelude::*;

#[traced(check(dims(D = -4)))]
fn f(#[shape(B, D)] x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
