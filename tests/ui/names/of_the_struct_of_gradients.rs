use gradloom::prelude::*;

struct DenseGrads;

#[traced]
fn dense(x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {}
