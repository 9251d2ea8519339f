use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    y += "one";
    y
}

fn main() {}
