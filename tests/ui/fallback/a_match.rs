use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    match x.rank() {
        1 => x.tanh(),
        2 =>
    }
}

fn main() {
    let x = &Tensor::scalar(1.0f32);
    let (y, pullback) = f::vjp(x);
    pullback(&y);
    f::grad(x).x.tanh();
    f::jvp(x, x);
}
