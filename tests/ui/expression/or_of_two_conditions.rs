use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let either = x.gt(0.0) || x.lt(-1.0);
    if either { x.sin() } else { x.cos() }
}

fn main() {}
