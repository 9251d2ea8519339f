use gradloom::prelude::*;

#[traced(check(range(f::x = 0.5..2.0)))]
fn f(#[shape(B)] x: &Tensor) -> Tensor {
    x.log()
}

fn main() {}
