use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x * (x.sum(..) as f64)
}

fn main() {}
