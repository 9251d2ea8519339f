use gradloom::prelude::*;

#[traced(order = 2)]
fn loss(#[shape(B, 3)] x: &Tensor, #[shape(4, 5)] w: &Tensor) -> Tensor {
    x.matmul(w).sum(..)
}

fn main() {
    let x = Tensor::scalar(1.0f32);
    let (gradient, change) = loss::hvp((&x, &x), (&x, &x));
    println!("{} {}", gradient.x, change.w);
}
