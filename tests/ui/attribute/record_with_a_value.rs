use gradloom::prelude::*;

#[traced(record = true)]
fn f(x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
