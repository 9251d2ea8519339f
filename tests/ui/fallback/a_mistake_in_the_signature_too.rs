use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, #[nodif] y: &Tensor) -> Tensor {
    let z = ;
    x.tanh()
}

fn main() {}
