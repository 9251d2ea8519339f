use gradloom::prelude::*;

#[traced(returns(B@(data, model, data), K))]
fn f(#[shape(B, K)] x: &Tensor) -> Tensor {
    x.sin()
}

fn main() {}
