use gradloom::prelude::*;

#[traced(check(range(x = 0.5..)))]
fn f(#[shape(B)] x: &Tensor) -> Tensor {
    x.log()
}

fn main() {}
