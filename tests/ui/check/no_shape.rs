use gradloom::prelude::*;

#[traced(check)]
fn f(x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
