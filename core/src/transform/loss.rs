//! Results that have a gradient: a loss, or a loss with other results beside it.

use crate::{Tensor, Tree};

/// Result of a function that has a gradient: a tensor, or a tuple that starts with one.
///
/// The tensor, the *loss*, has to be a single float. The other results are returned beside it and
/// are not differentiated, such as predictions or the next state of a model.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no gradient",
    label = "not a loss",
    note = "return a `Tensor`, or a tuple that starts with one"
)]
pub trait Loss: Tree {
    #[doc(hidden)]
    fn loss(&self) -> &Tensor;
}

impl Loss for Tensor {
    fn loss(&self) -> &Tensor {
        self
    }
}

macro_rules! with_others {
    ($($name:ident)*) => {
        impl<$($name: Tree),*> Loss for (Tensor, $($name,)*) {
            fn loss(&self) -> &Tensor {
                &self.0
            }
        }
    };
}

with_others!();
with_others!(A);
with_others!(A B);
with_others!(A B C);
with_others!(A B C D);
