use gradloom::prelude::*;

fn main() {
    let f = #[traced]
    |x: &Tensor| x.tanh();
    f(&Tensor::scalar(1.0f32));
}

