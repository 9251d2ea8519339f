use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, y: &Tensor) -> Tensor {
    let mut h = x.tanh();
    h %= y;
    h
}

fn main() {
    let x = Tensor::scalar(1.0f32);
    f(&x, &x);
}
