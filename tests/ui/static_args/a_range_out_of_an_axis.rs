use gradloom::{Tensor, traced};

#[traced]
fn f(#[shape(2, 3)] x: &Tensor) -> Tensor {
    x.set((.., 1..4), 0.0)
}

fn main() {}
