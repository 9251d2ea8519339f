use gradloom::prelude::*;

#[traced]
fn f(#[shape(f16; B)] x: &Tensor) -> Tensor {
    x.sin()
}

fn main() {}
