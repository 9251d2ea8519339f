#![deny(deprecated)]
use gradloom::prelude::*;

#[derive(Clone, Tree)]
struct Average {
    mean: Tensor,
}

#[traced]
impl Average {
    fn centre(&self, x: &Tensor) -> Tensor {
        x - self.mean.stop_gradient()
    }
}

fn main() {}
