use gradloom::prelude::*;

#[derive(Tree)]
struct Linear {
    w: Tensor,
}

#[traced]
fn f(linear: &Linear, x: &Tensor) -> Tensor {
    let w = linear.w;
    x * &w
}

fn main() {}
