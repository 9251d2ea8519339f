use gradloom::prelude::*;

#[traced]
fn f(x) -> Tensor {
    x.tanh()
}

fn main() {}
