use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    f64::sin(x)
}

fn main() {}
