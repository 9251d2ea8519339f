use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    g(x)
}

#[traced]
fn g(x: &Tensor) -> Tensor {
    f(x)
}

fn main() {
    f::grad(&Tensor::scalar(1.0f32));
    println!("{:?}", f::HASH);
}
