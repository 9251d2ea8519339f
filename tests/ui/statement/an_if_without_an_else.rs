use gradloom::prelude::*;

#[traced]
fn f(x: &Tensor) -> Tensor {
    let y = if x.rank() == 1 { x.sin() };
    y
}

fn main() {}
