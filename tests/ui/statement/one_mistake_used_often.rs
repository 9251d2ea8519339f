use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, y: &Tensor) -> Tensor {
    let a = x % y;
    let b = a.tanh();
    let c = b.matmul(&a) + &b;
    c * a
}

fn main() {
    let x = Tensor::scalar(1.0f32);
    f(&x, &x);
}
