use gradloom::prelude::*;

#[derive(Tree)]
struct Linear {
    w: Tensor,
}

#[traced]
fn f(linear: &Linear, x: &Tensor) -> Tensor {
    x * &linear.bias
}

fn main() {}
