//! A type of the user's has the name of one of this library's.
#![deny(warnings)]

use gradloom::{Tensor, traced};

struct Key;

impl Key {
    fn uniform(&self) -> f64 {
        0.5
    }
}

#[traced]
fn scaled(x: &Tensor) -> Tensor {
    let of = |key: &Key| key.uniform();
    let by: f64 = of(&Key);
    x * by
}

fn main() {
    scaled(&Tensor::from([1.0f32]));
}
