#![deny(deprecated)]
use gradloom::prelude::*;

use std::sync::LazyLock;

static SHIFT: LazyLock<Tensor> = LazyLock::new(|| Tensor::scalar(1.0f64));
static FACTOR: f64 = 2.0;

#[traced]
fn shifted(x: &Tensor) -> Tensor {
    x * FACTOR + &*SHIFT
}

fn main() {}
