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

#[traced]
fn views(
    xs: &[Tensor],
    ys: &[&Tensor],
    [a, b]: [&Tensor; 2],
    bias: ::std::option::Option<&Tensor>,
    (c, d): (Tensor, &Tensor),
) -> Tensor {
    if bias.is_some() {
        return views(xs, &[a], [a, b], ::std::option::Option::None, (c, d));
    }
    &xs[0] * ys[0] + a * b + c * d
}

#[::core::prelude::v1::test]
fn runs() {
    let x = Tensor::scalar(1.0f32);
    let (y, pullback) = affine::vjp(&x, &x).unwrap();
    pullback(&y);
    let (w, scale) = (x.sin(), 0.5);
    let layer = Layer::Linear(Linear { w, scale });
    branches::grad(&x, &layer);
    branches::grad(&x, &Layer::Flat);
    let all = [Tensor::scalar(1.0f32), Tensor::scalar(2.0f32)];
    let bias = ::std::option::Option::Some(&x);
    let grads = views::grad(&all, &[&x], [&x, &x], bias, (Tensor::scalar(3.0f32), &x));
    let (_, _) = (grads.xs, grads.ys);
}
