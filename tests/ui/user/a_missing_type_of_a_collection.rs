use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let parts = Vec::new();
    x * parts.len()
}

fn main() {}
