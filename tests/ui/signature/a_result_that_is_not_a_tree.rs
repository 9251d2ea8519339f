use gradloom::prelude::*;

struct Answer {
    y: Tensor,
}

#[traced]
fn f(x: &Tensor) -> Answer {
    Answer { y: x.sin() }
}

fn main() {
    drop(f(&Tensor::scalar(1.0f32)).y);
}
