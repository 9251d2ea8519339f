use gradloom::prelude::*;

fn f(x: &Tensor) -> Tensor {
    #[traced]
    let y = x.tanh();
    y
}

fn main() {}
