use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let mut h = x.clone();
    while h.lt(1.0) {
        h = h * 2.0;
    }
    h
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
