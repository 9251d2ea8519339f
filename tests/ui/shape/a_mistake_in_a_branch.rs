use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 3)] x: &Tensor, #[shape(4)] w: &Tensor, scaled: bool) -> Tensor {
    if scaled { x * w } else { x.clone() }
}

fn main() {}
