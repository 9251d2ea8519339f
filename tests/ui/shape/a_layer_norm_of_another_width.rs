use gradloom::prelude::*;

#[traced]
fn f(#[shape(B, 3)] x: &Tensor, #[shape(4)] w: &Tensor) -> Tensor {
    x.layer_norm(w, w, 1e-5)
}

fn main() {
    let x = Tensor::scalar(1.0f32);
    f(&x, &x);
}
