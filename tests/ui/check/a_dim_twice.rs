use gradloom::prelude::*;

#[traced(check(dims(D = 4, D = 6)))]
fn f(#[shape(B, D)] x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
