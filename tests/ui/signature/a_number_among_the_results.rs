use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> (Tensor, usize) {
    (x.tanh(), x.rank())
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
