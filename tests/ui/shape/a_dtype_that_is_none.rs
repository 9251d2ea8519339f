use gradloom::prelude::*;

#[traced]
fn f(#[shape(f8; B)] x: &Tensor) -> Tensor {
    x.sin()
}

fn main() {}
