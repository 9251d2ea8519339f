use gradloom::prelude::*;

#[traced]
fn f(#[shape(f32; .., 3)] x: &Tensor) -> Tensor {
    x.sin()
}

fn main() {}
