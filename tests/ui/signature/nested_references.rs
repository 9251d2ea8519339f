use gradloom::prelude::*;

#[traced]
fn f(pairs: &[(&Tensor, &Tensor)]) -> Tensor {
    pairs[0].0 * pairs[0].1
}

fn main() {}
