use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, y: &Tensor) -> Tensor {
    let c = x < y;
    c.select(x, y)
}

fn main() {
    let x = Tensor::scalar(1.0f32);
    f(&x, &x);
}
