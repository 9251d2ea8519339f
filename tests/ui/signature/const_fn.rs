use gradloom::prelude::*;

#[traced]
const fn f(_x: &Tensor) -> Tensor {
    panic!()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
