use gradloom::prelude::*;

#[traced]
fn f(x: Tensor) -> Tensor {
    let y = x;
    y + x
}

fn main() {}
