use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 5)] x: &Tensor) -> Tensor {
    let [a, b] = x.unbind(1);
    a * b
}

fn main() {}
