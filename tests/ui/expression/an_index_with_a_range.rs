use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x[0..2].tanh()
}

fn main() {}
