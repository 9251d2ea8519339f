use gradloom::prelude::*;

#[traced(order = 2)]
fn f(x: &Tensor) -> (Tensor, Tensor) {
    (x.tanh(), x.exp())
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
