use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    if matches!(x.sum(..), 0.0) { x.sin() } else { x.cos() }
}

fn main() {}
