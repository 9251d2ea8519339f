#![deny(warnings)]
//! Each warning can be allowed alone, and all of them on a function or an impl block.

use gradloom::prelude::*;

#[traced(allow(unused_parameter))]
fn like(x: &Tensor, y: &Tensor) -> Tensor {
    x.broadcast_like(y)
}

#[traced(allow(zero_gradient))]
fn step(x: &Tensor, y: &Tensor) -> Tensor {
    x * y.sign()
}

#[traced(allow(nan_gradient))]
fn log(x: &Tensor) -> Tensor {
    x.gt(0.0).select(&x.log(), x)
}

#[traced(allow(large_residual))]
fn spread(#[shape(N, 1)] x: &Tensor) -> Tensor {
    (x * Tensor::arange(1000, DType::F32))
        .tanh()
        .square()
        .sum(..)
}

#[traced]
#[allow(deprecated)]
fn all(x: &Tensor, y: &Tensor, z: &Tensor) -> Tensor {
    x.gt(0.0)
        .select(&(x.log() * y.sign()), &x.broadcast_like(z))
}

#[derive(Clone, Tree)]
struct Threshold {
    at: Tensor,
}

#[traced]
#[allow(deprecated)]
impl Threshold {
    fn apply(&self, x: &Tensor) -> Tensor {
        x.gt(&self.at).select(x, &x.zeros_like())
    }
}

#[traced(allow(zero_gradient, unused_parameter))]
impl Threshold {
    fn count(&self, x: &Tensor, like: &Tensor) -> Tensor {
        x.gt(&self.at).cast(DType::F32).broadcast_like(like)
    }

    // A method may have a receiver for uniformity, and a name may say that nobody reads the value.
    fn same(&self, x: &Tensor, _y: &Tensor) -> Tensor {
        x.identity()
    }
}

#[test]
fn runs() {
    let x = Tensor::from_vec(vec![0.5f32], [1]);
    let (_, pullback) = like::vjp(&x, &x);
    let (ct_x, ct_y) = pullback(&x);
    assert_eq!(
        (ct_x.to_vec::<f32>(), ct_y.to_vec::<f32>()),
        (vec![0.5], vec![0.0])
    );
    step(&x, &x);
    log(&x);
    spread(&x.unsqueeze(0));
    all(&x, &x, &x);
    let threshold = Threshold { at: x.clone() };
    threshold.apply(&threshold.same(&x, &x));
    threshold.count(&x, &x);
}
