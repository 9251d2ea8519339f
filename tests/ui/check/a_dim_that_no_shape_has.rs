use gradloom::prelude::*;

#[traced(check(dims(H = 4)))]
fn f(#[shape(B, D)] x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
