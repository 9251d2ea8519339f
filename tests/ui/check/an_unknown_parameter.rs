use gradloom::prelude::*;

#[traced(check(value(steps = 3)))]
fn f(#[shape(B)] x: &Tensor, #[shape(B)] y: &Tensor) -> Tensor {
    x * y
}

fn main() {}
