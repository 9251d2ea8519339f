#![deny(deprecated)]
use gradloom::prelude::*;

#[traced]
fn residual(x: &Tensor, shape_of: &Tensor) -> Tensor {
    x.broadcast_like(shape_of)
}

fn main() {}
