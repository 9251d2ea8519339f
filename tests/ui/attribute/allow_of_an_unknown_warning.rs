use gradloom::prelude::*;

#[traced(allow(unused_parameters, slow))]
fn f(x: &Tensor) -> Tensor {
    x.sin()
}

fn main() {}
