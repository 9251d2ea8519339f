use gradloom::prelude::*;

#[traced]
#[nodiff]
fn f(x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
