//! Fields of trees and host values as operands.

use crate::Tensor;
use crate::tensor::number;

/// A number or a tensor in a field, as the operand of an op.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a tensor nor a number",
    label = "an operation takes tensors and numbers",
    note = "write the part of it that is a tensor, or call a method of it that is traced"
)]
pub trait Leaf {
    /// The tensor, or the number in the dtype of `like`.
    fn operand(&self, like: &Tensor) -> Tensor;
    /// The tensor, if it is one.
    fn tensor(&self) -> Option<&Tensor>;
}

impl Leaf for Tensor {
    fn operand(&self, _: &Tensor) -> Tensor {
        self.clone()
    }
    fn tensor(&self) -> Option<&Tensor> {
        Some(self)
    }
}

impl<T: Leaf + ?Sized> Leaf for &T {
    fn operand(&self, like: &Tensor) -> Tensor {
        (**self).operand(like)
    }
    fn tensor(&self) -> Option<&Tensor> {
        (**self).tensor()
    }
}

impl<T: Leaf + ?Sized> Leaf for Box<T> {
    fn operand(&self, like: &Tensor) -> Tensor {
        (**self).operand(like)
    }
    fn tensor(&self) -> Option<&Tensor> {
        (**self).tensor()
    }
}

macro_rules! numbers {
    ($($ty:ident)*) => {$(
        impl Leaf for $ty {
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

/// A field or a host value as an operand. Everything that asks for one asks here, so that rustc says once what is none.
pub fn operand_of<L: Leaf>(value: &L) -> &dyn Leaf {
    value
}

/// The operand that a field or a host value is.
#[track_caller]
pub fn operand(value: &dyn Leaf, like: &Tensor) -> Tensor {
    value.operand(like)
}

/// A field that has to be a tensor, because no tensor stands beside it whose dtype a number could take.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor, and this is an operation of tensors",
    label = "not a tensor",
    note = "bind a number with its type before it is used, as in `let scale: f32 = model.scale;`"
)]
pub trait TensorPart {
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

/// Another handle on the tensor in a field.
pub fn tensor_part(value: &impl TensorPart) -> Tensor {
    value.tensor_part()
}
