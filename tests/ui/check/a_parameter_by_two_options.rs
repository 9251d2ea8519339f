use gradloom::prelude::*;

#[traced(check(value(x = Tensor::scalar(1.0)), range(x = 0.5..2.0)))]
fn f(x: &Tensor) -> Tensor {
    x.log()
}

fn main() {}
