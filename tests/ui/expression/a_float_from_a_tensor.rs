use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let scale: f32 = x.sum(..);
    x * scale
}

fn main() {}
