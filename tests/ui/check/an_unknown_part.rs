use gradloom::prelude::*;

#[traced(check(tolerance = 0.1))]
fn f(#[shape(B)] x: &Tensor) -> Tensor {
    x.log()
}

fn main() {}
