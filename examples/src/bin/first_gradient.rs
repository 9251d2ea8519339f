//! The example of the README: the gradient of a least-squares loss, and the program behind it.
use gradloom::prelude::*;

#[traced]
fn loss(#[shape(B, I)] x: &Tensor, #[shape(I)] w: &Tensor, #[nodiff] target: &Tensor) -> Tensor {
    let error = x.matmul(w) - target;
    error.square().mean(..)
}

fn main() {
    let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    let (w, target) = (Tensor::from([0.5f32, -0.5]), Tensor::from([1.0f32, 0.0]));
    let (value, grads) = loss::value_and_grad(&x, &w, &target);
    println!("value = {value}\ngrads.w = {}\n{}", grads.w, loss::PROGRAM);
}
