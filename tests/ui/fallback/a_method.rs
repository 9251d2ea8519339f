use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let y = x.tanh();
    y.
}

fn main() {
    let x = &Tensor::scalar(1.0f32);
    let (y, pullback) = f::vjp(x);
    pullback(&y);
    f::grad(x).x.tanh();
    f::jvp(x, x);
}
