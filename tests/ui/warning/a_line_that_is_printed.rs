#![deny(deprecated)]
use gradloom::prelude::*;

#[traced]
fn scaled(x: &Tensor) -> Tensor {
    println!("scaled");
    x * 2.0
}

fn main() {}
