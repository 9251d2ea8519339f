use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    #[save]
    x.tanh()
}

fn main() {}
