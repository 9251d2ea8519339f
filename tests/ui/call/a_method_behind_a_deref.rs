use gradloom::prelude::*;
use std::ops::Deref;

#[derive(Clone, Tree)]
struct Linear {
    w: Tensor,
}

#[traced]
impl Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        x * &self.w
    }
}

#[derive(Clone, Tree)]
struct Adapter {
    base: Linear,
    a: Tensor,
}

impl Deref for Adapter {
    type Target = Linear;
    fn deref(&self) -> &Linear {
        &self.base
    }
}

impl Adapter {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.base.forward(x) + x * &self.a
    }
}

#[traced]
fn loss(model: &Adapter, x: &Tensor) -> Tensor {
    model.forward(x).sum(..)
}

fn main() {}
