use gradloom::prelude::*;

#[traced]
fn pair(x: &Tensor) -> (Tensor, Tensor) {
    (x.sin(), x.cos())
}

fn main() {
    let x = &Tensor::scalar(1.0f32);
    let (_, pullback) = pair::vjp(x);
    pullback(x);
}
