use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    y[0] = 1.0;
    y
}

fn main() {}
