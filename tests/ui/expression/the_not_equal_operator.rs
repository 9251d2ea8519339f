use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let c = x != 0.0;
    x.sin()
}

fn main() {}
