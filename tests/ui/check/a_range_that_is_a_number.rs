use gradloom::prelude::*;

#[traced(check(range(x = 2.0)))]
fn f(#[shape(B)] x: &Tensor) -> Tensor {
    x.log()
}

fn main() {}
