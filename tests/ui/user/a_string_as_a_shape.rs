use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    x.reshape("2, 3")
}

fn main() {}
