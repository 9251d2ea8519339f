use gradloom::prelude::*;

#[traced(returns(B))]
fn f(#[shape(B, 3)] x: &Tensor) -> Tensor {
    x.sum_keepdims(1)
}

fn main() {}
