use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, T, C)] x: &Tensor) -> Tensor {
    x.permute([1, 0])
}

fn main() {}
