use gradloom::prelude::*;

#[traced(check(range(by = 0.5..2.0)))]
fn f(#[shape(B)] x: &Tensor, by: f64) -> Tensor {
    x * by
}

fn main() {}
