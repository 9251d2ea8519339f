use gradloom::prelude::*;

#[traced]
unsafe fn f(x: &Tensor) -> Tensor {
    x.tanh()
}

fn main() {
    unsafe { f(&Tensor::scalar(1.0f32)) };
}
