use gradloom::prelude::*;

#[traced]
extern "C" fn f(x: &Tensor) -> Box<Tensor> {
    Box::new(x.tanh())
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
