use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let c = x.gt(0.0) | x.lt(-1.0);
    c.select(x, &x.neg())
}

fn main() {}
