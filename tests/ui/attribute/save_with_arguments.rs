use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    #[save(always)]
    let y = x.tanh();
    y.sin()
}

fn main() {}
