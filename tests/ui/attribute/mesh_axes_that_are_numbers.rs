use gradloom::prelude::*;

#[traced]
fn f(#[shape(B@2, K)] x: &Tensor) -> Tensor {
    x.sin()
}

fn main() {}
