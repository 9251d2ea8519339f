use gradloom::prelude::*;

#[traced]
fn pair(x: &Tensor) -> ((Tensor, Tensor), Tensor) {
    ((x.sin(), x.cos()), x.clone())
}

fn main() {
    let x = &Tensor::scalar(1.0f32);
    pair::grad(x);
}
