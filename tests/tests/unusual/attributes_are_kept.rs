#![deny(warnings, missing_docs)]
//! Attributes of the user's stay where they belong.

use gradloom::prelude::*;

/// Has a comment.
#[inline]
#[must_use]
#[traced]
pub fn documented(x: &Tensor) -> Tensor {
    x.sin()
}

#[traced]
#[cfg(any())]
fn left_out(x: &Missing) -> Tensor {
    missing(x)
}

/// Without a caller.
#[traced]
#[allow(dead_code)]
fn not_called(x: &Tensor, #[allow(unused_variables)] y: &Tensor) -> Tensor {
    x.sin()
}

/// A tree.
#[derive(Tree)]
pub struct Linear {
    /// The weight.
    pub w: Tensor,
}

#[traced]
impl Linear {
    /// Has a comment, too.
    #[inline]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        #[allow(unused_variables)]
        let unused = 1;
        x * &self.w
    }

    #[cfg(any())]
    fn left_out(&self, x: &Missing) -> Tensor {
        missing(x)
    }
}

#[allow(missing_docs)]
#[test]
fn runs() {
    let x = Tensor::scalar(0.5f32);
    let linear = Linear { w: x.clone() };
    let (y, pullback) = linear.forward_vjp(&documented(&x));
    pullback(&y);
    documented::grad(&x);
}
