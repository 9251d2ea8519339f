use gradloom::prelude::*;

struct dense {}

#[traced]
fn dense(x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
