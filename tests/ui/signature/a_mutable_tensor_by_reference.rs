use gradloom::prelude::*;

#[traced]
fn f(mut x: &mut Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
