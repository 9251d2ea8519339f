#![no_implicit_prelude]
#![deny(warnings)]
#![forbid(unsafe_code)]

use ::gradloom::{Tensor, Tree, traced};

#[derive(Tree)]
struct Linear {
    w: Tensor,
    #[tree(skip)]
    scale: f32,
}

#[derive(Tree)]
enum Layer {
    Linear(Linear),
    Flat,
}

#[traced]
fn affine(x: &Tensor, w: &Tensor) -> ::gradloom::Result<Tensor> {
    let h = x * w;
    ::std::result::Result::Ok(h.tanh())
}

#[traced(allow(recorded_call))]
fn branches(x: &Tensor, layer: &Layer) -> Tensor {
    match layer {
        Layer::Linear(linear) => linear.forward(x),
        Layer::Flat => ::std::clone::Clone::clone(x),
    }
}

#[traced]
impl Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        x * &self.w * self.scale
    }
}

fn main() {
    let x = Tensor::scalar(1.0f32);
    let (y, pullback) = affine::vjp(&x, &x).unwrap();
    pullback(&y);
    let (w, scale) = (x.sin(), 0.5);
    let layer = Layer::Linear(Linear { w, scale });
    branches::grad(&x, &layer);
    branches::grad(&x, &Layer::Flat);
}
