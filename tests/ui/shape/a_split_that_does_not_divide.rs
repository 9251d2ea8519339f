use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 3)] x: &Tensor) -> Tensor {
    let [a, b] = x.split(1);
    a + b
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
