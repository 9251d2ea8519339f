use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let n: usize = "three";
    x * n
}

fn main() {}
