use gradloom::prelude::*;

#[traced]
fn f(#[shape(f32; B)] mask: &Tensor, #[shape(f32; B)] x: &Tensor) -> Tensor {
    mask.select(x, x)
}

fn main() {}
