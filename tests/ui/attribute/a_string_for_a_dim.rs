use gradloom::prelude::*;

#[traced]
fn f(#[shape("B", 3)] x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
