use gradloom::prelude::*;

#[traced(returns(3))]
fn f(#[shape(B, 3)] x: &Tensor, all: bool) -> Tensor {
    if all {
        return x.sum(..);
    }
    x.sum(0)
}

fn main() {}
