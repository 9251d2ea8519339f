use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x.tanh();
}

fn main() {}
