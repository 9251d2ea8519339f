use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, T)] x: &Tensor) -> Tensor {
    let totals = x.sum(1);
    totals.sum(1)
}

fn main() {}
