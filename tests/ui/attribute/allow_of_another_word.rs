use gradloom::prelude::*;

#[traced(allow(slow))]
fn f(x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
