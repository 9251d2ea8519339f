use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    #[recomput]
    let y = x.tanh();
    y.sin()
}

fn main() {}
