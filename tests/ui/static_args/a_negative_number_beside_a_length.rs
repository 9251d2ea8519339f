use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x.reshape([x.dim(0), -1])
}

fn main() {}
