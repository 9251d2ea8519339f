use gradloom::prelude::*;

#[traced]
fn f(#[shape(2, 6)] x: &Tensor, #[shape(4)] y: &Tensor) -> Tensor {
    let rows = x.reshape([4, 3]);
    rows * y
}

fn main() {}
