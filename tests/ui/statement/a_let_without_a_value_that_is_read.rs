use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let y;
    let z = x.sin();
    y
}

fn main() {}
