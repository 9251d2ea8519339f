use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x = &x.tanh();
    x.clone()
}

fn main() {}
