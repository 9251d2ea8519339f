use gradloom::prelude::*;

#[traced]
fn f((x, n): (Tensor, usize)) -> Tensor {
    x.sum(n)
}

fn main() {}
