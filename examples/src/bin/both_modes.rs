//! Both modes of a dense layer: its value, its derivatives and its program. The book shows it.
use gradloom::prelude::*;

#[traced]
fn dense(#[shape(B, I)] x: &Tensor, #[shape(I, O)] w: &Tensor, #[shape(O)] b: &Tensor) -> Tensor {
    let h = x.matmul(w) + b;
    h.tanh()
}

fn main() {
    let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    let w = Tensor::from([[0.1f32, -0.2], [0.3, 0.4]]);
    let b = Tensor::from([0.5f32, -0.5]);

    // A promise: nothing has run yet. Printing it runs it.
    let y = dense(&x, &w, &b);
    println!("y = {y}");

    // Reverse mode: from a cotangent of the result to cotangents of the arguments.
    let (y, pullback) = dense::vjp(&x, &w, &b);
    let (ct_x, ct_w, ct_b) = pullback(&y.ones_like());
    println!("ct_x = {ct_x}\nct_w = {ct_w}\nct_b = {ct_b}");

    // Forward mode: from a change of the arguments to the change of the result.
    let d_b = Tensor::from([1.0f32, 0.0]);
    let (_, dy) = dense::jvp((&x, &w, &b), (&x.zeros_like(), &w.zeros_like(), &d_b));
    println!("dy = {dy}");

    println!("{}", dense::PROGRAM);
}
