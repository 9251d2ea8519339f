#![deny(deprecated)]
use gradloom::prelude::*;

#[traced]
fn positive(x: &Tensor) -> Tensor {
    let y = x * 2.0;
    if y.sum(..).item::<f64>() > 0.0 { y } else { -y }
}

fn main() {}
