//! The argument of a call follows a `Deref` of the user's.
#![deny(warnings)]

use gradloom::prelude::*;
use std::ops::Deref;

struct Param {
    value: Tensor,
}

impl Deref for Param {
    type Target = Tensor;
    fn deref(&self) -> &Tensor {
        &self.value
    }
}

#[traced]
fn twice(x: &Tensor) -> Tensor {
    x * 2.0
}

#[traced]
fn scaled(x: &Tensor) -> Tensor {
    let param = Param { value: x.exp() };
    twice(&param)
}

fn main() {
    scaled(&Tensor::from([1.0f32]));
}
