use gradloom::prelude::*;

#[traced]
fn f(#[shape(2, 3)] x: &Tensor, #[shape(2, 4)] y: &Tensor) -> Tensor {
    Tensor::concat(&[x, y], 0)
}

fn main() {
    let x = Tensor::scalar(1.0f32);
    f(&x, &x);
}
