use gradloom::prelude::*;

#[traced]
fn f(xs: impl Iterator<Item = Tensor>, x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
