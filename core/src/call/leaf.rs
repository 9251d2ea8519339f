//! Operands that are fields of trees or host values.

use crate::Tensor;
use crate::tensor::number;

/// A field or host value that is an operand of an op: a tensor or a number.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a tensor nor a number",
    label = "an operation takes tensors and numbers",
    note = "use a field that is a tensor, or call a traced method"
)]
pub trait LeafOperand {
    /// Returns the tensor, or the number as a tensor with the dtype of `like`.
    fn operand(&self, like: &Tensor) -> Tensor;
    /// Returns the tensor, or `None` for a number.
    fn tensor(&self) -> Option<&Tensor>;
}

impl LeafOperand for Tensor {
    fn operand(&self, _: &Tensor) -> Tensor {
        self.clone()
    }
    fn tensor(&self) -> Option<&Tensor> {
        Some(self)
    }
}

impl<T: LeafOperand + ?Sized> LeafOperand for &T {
    fn operand(&self, like: &Tensor) -> Tensor {
        (**self).operand(like)
    }
    fn tensor(&self) -> Option<&Tensor> {
        (**self).tensor()
    }
}

impl<T: LeafOperand + ?Sized> LeafOperand for Box<T> {
    fn operand(&self, like: &Tensor) -> Tensor {
        (**self).operand(like)
    }
    fn tensor(&self) -> Option<&Tensor> {
        (**self).tensor()
    }
}

macro_rules! numbers {
    ($($ty:ident)*) => {$(
        impl LeafOperand for $ty {
            #[track_caller]
            fn operand(&self, like: &Tensor) -> Tensor {
                number(*self, like)
            }
            fn tensor(&self) -> Option<&Tensor> {
                None
            }
        }
    )*};
}
numbers! { f32 f64 i32 i64 usize }

impl LeafOperand for bool {
    fn operand(&self, _: &Tensor) -> Tensor {
        Tensor::scalar(*self)
    }
    fn tensor(&self) -> Option<&Tensor> {
        None
    }
}

/// Borrows a value as an operand. All operands pass through here, so rustc reports a wrong type
/// once.
pub fn operand_of<L: LeafOperand>(value: &L) -> &dyn LeafOperand {
    value
}

/// Converts a field or a host value to a tensor.
#[track_caller]
pub fn operand(value: &dyn LeafOperand, like: &Tensor) -> Tensor {
    value.operand(like)
}

/// A field that has to be a tensor, because no other operand determines the dtype of a number.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor, and this operation takes tensors",
    label = "not a tensor",
    note = "bind a number to a local with a type first, as in `let scale: f32 = model.scale;`; if a pattern binds a reference to it, write `*scale`; if it is a tree with operators of its own, write the type of the result, as in `let sum: State = &pair.a + &pair.b;`"
)]
pub trait TensorPart {
    /// Returns the tensor, as a part of a tree.
    fn tensor_part(&self) -> Tensor;
}

impl TensorPart for Tensor {
    fn tensor_part(&self) -> Tensor {
        self.clone()
    }
}

impl<T: TensorPart + ?Sized> TensorPart for &T {
    fn tensor_part(&self) -> Tensor {
        (**self).tensor_part()
    }
}

impl<T: TensorPart + ?Sized> TensorPart for Box<T> {
    fn tensor_part(&self) -> Tensor {
        (**self).tensor_part()
    }
}

/// Clones the handle of the tensor in a field.
pub fn tensor_part(value: &impl TensorPart) -> Tensor {
    value.tensor_part()
}
