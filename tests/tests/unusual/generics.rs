#![deny(warnings)]

use gradloom::prelude::*;

trait Activation {
    fn apply(&self, x: &Tensor) -> Tensor;
}

#[derive(Tree)]
struct Scaled {
    by: Tensor,
}

impl Activation for Scaled {
    fn apply(&self, x: &Tensor) -> Tensor {
        (x * &self.by).tanh()
    }
}

#[traced(allow(recorded_call))]
fn through<A: Activation + Tree>(x: &Tensor, activation: &A) -> Tensor
where
    A: Sized,
{
    let layers = [activation];
    let mut h = x.clone();
    for layer in layers {
        h = layer.apply(&h);
    }
    h
}

#[traced]
fn repeated<const N: usize>(x: &Tensor) -> Tensor {
    let mut h = x.clone();
    for _ in 0..N {
        h = h.sin();
    }
    h
}

#[traced]
fn borrowed<'a, 'b: 'a>(x: &'a Tensor, y: &'b Tensor) -> Tensor {
    x * y
}

#[derive(Tree)]
struct Pair<T> {
    left: T,
    right: T,
}

#[traced(allow(recorded_call))]
impl<T: Activation + Tree> Pair<T> {
    fn forward(&self, x: &Tensor) -> Tensor {
        let h = self.left.apply(x);
        self.right.apply(&h)
    }
}

#[test]
fn runs() {
    let x = Tensor::scalar(0.5f32);
    let scaled = || Scaled {
        by: Tensor::scalar(2.0f32),
    };
    through::grad(&x, &scaled());
    repeated::grad::<3>(&x);
    borrowed::grad(&x, &x);
    let pair = Pair {
        left: scaled(),
        right: scaled(),
    };
    let (y, pullback) = pair.forward_vjp(&x);
    pullback(&y);
}
