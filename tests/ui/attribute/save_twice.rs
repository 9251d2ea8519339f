use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    #[save]
    #[save]
    let y = x.tanh();
    y.sin()
}

fn main() {}
