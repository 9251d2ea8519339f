//! A trait gives integers a method that only floats have in the standard library.
#![deny(warnings)]

use gradloom::prelude::*;

trait Wave {
    fn sin(self) -> f64;
}

impl Wave for usize {
    fn sin(self) -> f64 {
        (self as f64).sin()
    }
}

#[traced]
fn scaled(x: &Tensor) -> Tensor {
    x * x.rank().sin()
}

fn main() {
    scaled(&Tensor::from([1.0f32]));
}
