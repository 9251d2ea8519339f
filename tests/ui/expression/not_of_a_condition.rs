use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let c = !x.gt(0.0);
    c.select(x, x)
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
