use gradloom::prelude::*;

#[traced]
fn f(&self, x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
