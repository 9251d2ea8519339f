use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x.matmul()
}

fn main() {}
