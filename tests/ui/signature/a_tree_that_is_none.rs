use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor, s: &Settings) -> Tensor {
    x * s.scale
}

struct Settings {
    scale: f32,
}

fn main() {
    f(&Tensor::scalar(1.0f32), &Settings { scale: 2.0 });
}
