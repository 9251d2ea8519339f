use gradloom::prelude::*;

#[traced(crate = gradlom)]
fn f(x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
