use gradloom::prelude::*;

#[traced(returns((B, 3), _))]
fn f(#[shape(B, 3)] x: &Tensor) -> Tensor {
    x.sin()
}

fn main() {}
