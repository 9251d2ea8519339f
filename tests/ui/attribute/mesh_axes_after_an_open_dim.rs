use gradloom::prelude::*;

#[traced]
fn f(#[shape(B@(_, data), K)] x: &Tensor) -> Tensor {
    x.sin()
}

fn main() {}
