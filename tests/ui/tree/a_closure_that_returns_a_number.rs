use gradloom::prelude::*;

fn main() {
    let f = |x: &Tensor| x.sum(..).item::<f32>();
    vjp(f, &Tensor::scalar(1.0f32));
}

