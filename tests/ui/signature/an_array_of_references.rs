use gradloom::prelude::*;

#[traced]
fn f(xs: [&Tensor; 2]) -> Tensor {
    xs[0].tanh()
}

fn main() {}
