use gradloom::prelude::*;

fn plain(x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {
    let x = &Tensor::scalar(1.0f32);
    plain::grad(x);
}
