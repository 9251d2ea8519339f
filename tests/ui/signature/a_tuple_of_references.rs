use gradloom::prelude::*;

#[traced]
fn f(pair: (&Tensor, &Tensor)) -> Tensor {
    pair.0 * pair.1
}

fn main() {}
