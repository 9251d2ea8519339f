use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    match x.argmax(0) {
        0 => x.exp(),
        _ => x.neg(),
    }
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
