use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, T)] x: &Tensor) -> Tensor {
    x.swap_axes(1, 2)
}

fn main() {}
