#![deny(warnings)]

/// The run time under another name: the path that the attribute gives is the only one that is used.
mod tensors {
    pub use gradloom as loom;
}

use tensors::loom::{Tensor, Tree, traced};

#[derive(Tree)]
#[tree(crate = tensors::loom)]
struct Linear {
    w: Tensor,
}

#[traced(crate = crate::renamed_dependency::tensors::loom)]
fn tanh(x: &Tensor) -> Tensor {
    x.tanh()
}

#[traced(crate = tensors::loom)]
impl Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        tanh(&(x * &self.w))
    }
}

#[test]
fn runs() {
    let linear = Linear {
        w: Tensor::scalar(2.0f32),
    };
    let (y, pullback) = linear.forward_vjp(&Tensor::scalar(1.0f32));
    pullback(&y);
}
