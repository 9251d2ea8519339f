use gradloom::prelude::*;

#[traced]
fn f(#[shape(3, 4)] x: &Tensor, #[shape(4, 3)] y: &Tensor) -> Tensor {
    x + y
}

fn main() {
    let x = Tensor::scalar(1.0f32);
    f(&x, &x);
}
