use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let c = x.gt(0.0);
    if c { x.sin() } else { x.cos() }
}

fn main() {}
