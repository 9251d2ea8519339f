use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, #[shape(B@data)] _: &Tensor) -> Tensor {
    x.sin()
}

fn main() {}
