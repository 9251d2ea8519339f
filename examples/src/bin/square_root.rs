//! The derivative of Newton's method, through a loop whose end depends on computed values.

use gradloom::prelude::*;

#[traced(allow(recorded_call))]
fn square_root(a: &Tensor) -> Tensor {
    let mut x = a * 0.5 + 0.5;
    for turn in 0..50 {
        let error = &x * &x - a;
        if error.abs().item::<f64>() < 1e-13 {
            println!("{turn} turns");
            break;
        }
        x = &x - error / (&x * 2.0);
    }
    x
}

fn main() {
    let a = Tensor::scalar(2.0f64);
    println!("{}", square_root::PROGRAM);
    let (x, gradient) = square_root::value_and_grad(&a);
    println!("{:.6} {:.6}", x.item::<f64>(), gradient.a.item::<f64>());
}
