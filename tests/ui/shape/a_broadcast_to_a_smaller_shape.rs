use gradloom::prelude::*;

#[traced]
fn f(#[shape(4, 3)] x: &Tensor) -> Tensor {
    x.broadcast_to([3])
}

fn main() {}
