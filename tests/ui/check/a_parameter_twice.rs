use gradloom::prelude::*;

#[traced(check(value(n = 3), value(n = 4)))]
fn f(#[shape(B)] x: &Tensor, n: i32) -> Tensor {
    x * n
}

fn main() {}
