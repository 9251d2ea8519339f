use gradloom::{Tensor, traced};

#[traced]
fn f(#[shape(2, 3)] x: &Tensor) -> Tensor {
    x.i((0, 1, 2))
}

fn main() {}
