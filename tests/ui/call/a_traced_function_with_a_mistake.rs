use gradloom::prelude::*;

#[traced]
fn g(x: &Tensor, y: &Tensor) -> Tensor {
    x % y
}

#[traced]
fn f(x: &Tensor) -> Tensor {
    g(x, x).sin()
}

fn main() {
    let x = Tensor::scalar(1.0f32);
    let (_, pullback) = f::vjp(&x);
    pullback(&x);
    g::grad(&x, &x);
}
