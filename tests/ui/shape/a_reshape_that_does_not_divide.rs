use gradloom::prelude::*;

#[traced]
fn f(#[shape(4, 6)] x: &Tensor) -> Tensor {
    x.reshape([-1, 5])
}

fn main() {}
