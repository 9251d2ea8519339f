use gradloom::prelude::*;

#[traced]
fn f(#[shape(f32; B, 3)] x: &Tensor, #[shape(f64; 3)] w: &Tensor) -> Tensor {
    let h = x.tanh();
    h * w
}

fn main() {}
