use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 3)] x: &Tensor, #[nodiff] #[shape(B, 2)] y: &Tensor) -> Tensor {
    x.cross_entropy(y)
}

fn main() {
    let x = Tensor::scalar(1.0f32);
    f(&x, &x);
}
