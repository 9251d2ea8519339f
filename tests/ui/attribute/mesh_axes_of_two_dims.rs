use gradloom::prelude::*;

#[traced]
fn f(#[shape(f32; B@data, K@data)] x: &Tensor) -> Tensor {
    x.sin()
}

fn main() {}
