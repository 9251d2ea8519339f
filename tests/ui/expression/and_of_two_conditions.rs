use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, y: &Tensor) -> Tensor {
    let c = x.gt(0.0) & y.gt(0.0);
    c.select(x, y)
}

fn main() {
    let x = Tensor::scalar(1.0f32);
    f(&x, &x);
}
