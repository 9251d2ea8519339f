use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) {
    println!("{x}");
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
