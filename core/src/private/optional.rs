//! Tangents and cotangents that may be zero, depending on control flow. `None` stands for zero.

use crate::__private::part;
use crate::call::companion_pullback::LeafCotangents;
use crate::call::leaf_range::LeafRange;
use crate::call::leaves::Leaves;
use crate::tensor::part::sum_of_cotangents;
use crate::{Aval, Tensor, Tree};

/// Adds `ct` to a cotangent.
#[track_caller]
pub fn accumulate(total: &mut Option<Tensor>, ct: &Tensor) {
    *total = Some(match total {
        Some(total) => sum_of_cotangents(total, ct),
        None => ct.clone(),
    });
}

/// Computes `x + y`.
#[track_caller]
pub fn sum(x: Option<&Tensor>, y: Option<&Tensor>) -> Option<Tensor> {
    match (x, y) {
        (Some(x), Some(y)) => Some(x + y),
        (x, y) => x.or(y).cloned(),
    }
}

/// Computes `x - y`.
#[track_caller]
pub fn difference(x: Option<&Tensor>, y: Option<&Tensor>) -> Option<Tensor> {
    match (x, y) {
        (Some(x), Some(y)) => Some(x - y),
        (None, Some(y)) => Some(-y),
        (x, None) => x.cloned(),
    }
}

/// Replaces zeros among the operands of an op by tensors of zeros, unless all operands are zero.
///
/// `likes` are the avals of the operands, if these are not all the same.
pub fn fill_zeros<const N: usize>(
    values: [Option<&Tensor>; N],
    likes: Option<[&Aval; N]>,
) -> Option<[Tensor; N]> {
    let given = values.iter().flatten().next()?;
    Some(std::array::from_fn(|i| match (values[i], &likes) {
        (Some(value), _) => value.clone(),
        (None, Some(likes)) => crate::call::leaves::zeros(likes[i]),
        (None, None) => crate::call::leaves::zeros(given.aval()),
    }))
}

/// Returns the leaf at a position, or `None` if it is missing or zero.
pub fn given_leaf(leaves: &[Option<Tensor>], i: usize) -> Option<Tensor> {
    leaves.get(i).cloned().flatten()
}

/// Returns the tangent of a tensor in a tree.
pub fn optional_leaf_at(given: &[Option<Tensor>], at: LeafRange) -> Option<Tensor> {
    let leaves: Leaves = part(given, at);
    given_leaf(&leaves, 0)
}

impl LeafCotangents {
    /// Returns the cotangent of a parameter that is a tensor, if it is not zero.
    pub fn given(&self, param: usize) -> Option<Tensor> {
        given_leaf(self.leaves(param), 0)
    }
}

/// Borrows a tree or a number, through any number of references, by method resolution.
pub trait BorrowedPlace {
    /// Returns the tree or the number by reference.
    fn located(&self) -> &Self;
}

impl<T: Tree> BorrowedPlace for T {
    fn located(&self) -> &T {
        self
    }
}

impl<T: Tree> BorrowedPlace for [T] {
    fn located(&self) -> &[T] {
        self
    }
}

macro_rules! numbers {
    ($($ty:ident)*) => {$(
        impl BorrowedPlace for $ty {
            fn located(&self) -> &$ty {
                self
            }
        }
    )*};
}
numbers! { f32 f64 i32 i64 usize }
