use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 3)] x: &Tensor) -> Tensor {
    x.squeeze(1)
}

fn main() {}
