use gradloom::prelude::*;

#[traced(check)]
fn f(#[shape(B, I)] x: &Tensor, axis: i64) -> Tensor {
    x.sum(axis)
}

fn main() {}
