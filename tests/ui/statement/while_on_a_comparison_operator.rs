use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let mut y = x.clone();
    while y < 1.0 {
        y = y * 2.0;
    }
    y
}

fn main() {}
