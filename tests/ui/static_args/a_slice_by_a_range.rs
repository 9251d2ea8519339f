use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, n: usize) -> Tensor {
    x.slice(1..n)
}

fn main() {}
