use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let hidden = x.tanh();
    hiden.sin()
}

fn main() {}
