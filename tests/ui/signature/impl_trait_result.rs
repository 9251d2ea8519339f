use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> impl Tree {
    x.tanh()
}

fn main() {
    f(&Tensor::scalar(1.0f32));
}
