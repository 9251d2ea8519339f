#![deny(deprecated)]
use gradloom::prelude::*;

#[traced(allow(recorded_call))]
fn inner(x: &Tensor) -> Tensor {
    println!("inner");
    x * 2.0
}

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
}

#[traced(allow(recorded_call))]
impl Layer {
    fn forward(&self, x: &Tensor) -> Tensor {
        inner(x) * &self.w
    }
}

#[traced]
fn plain(x: &Tensor) -> Tensor {
    x.exp()
}

#[traced]
fn outer(x: &Tensor) -> Tensor {
    inner(&plain(x)).sum(..)
}

#[traced]
fn net(layer: &Layer, x: &Tensor) -> Tensor {
    let y = plain(x);
    layer.forward(&y)
}

fn main() {}
