use gradloom::prelude::*;

#[shape(B, 3)]
#[traced]
fn f(x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
