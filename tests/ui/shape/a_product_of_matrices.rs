use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 3)] x: &Tensor, #[shape(4, O)] w: &Tensor) -> Tensor {
    x.matmul(w)
}

fn main() {
    let x = Tensor::scalar(1.0f32);
    f(&x, &x);
}
