//! Trees as the leaves that they have, in order.
//!
//! Between companions, cotangents and tangents travel so. A leaf that is zero is `None`, and so is one that is missing at
//! the end.

use crate::tree::share;
use crate::{Aval, Tensor, Tree};
use std::sync::Arc;

/// The leaves of one tree; a leaf that is zero is `None`.
pub type Leaves = Vec<Option<Tensor>>;

/// Another handle on a tensor.
pub fn own(x: &Tensor) -> Tensor {
    x.clone()
}

/// Residuals that share one field.
pub type List<T> = Arc<[T]>;

/// Other handles on tensors.
pub fn own_all(tensors: &[&Tensor]) -> List<Tensor> {
    tensors.iter().map(|x| own(x)).collect()
}

/// The avals of tensors.
pub fn avals_all(tensors: &[&Tensor]) -> List<Aval> {
    tensors.iter().map(|x| x.aval().clone()).collect()
}

/// Each element of a list, which has as many as the caller says.
pub fn elements<T, const N: usize>(list: &List<T>) -> [&T; N] {
    let elements: &[T; N] = (&**list).try_into().expect("as many elements as were kept");
    elements.each_ref()
}

/// The leaf of a tensor.
pub fn leaf(x: &Tensor) -> Leaves {
    vec![Some(x.clone())]
}

/// The leaves of a result.
pub fn leaves<const N: usize>(leaves: [Option<Tensor>; N]) -> Leaves {
    leaves.into()
}

/// A tree of handles on the leaves of another.
pub fn copy<T: Tree>(tree: &T) -> T {
    share(tree)
}

/// Zeros of an aval.
pub fn zeros(aval: &Aval) -> Tensor {
    Tensor::zeros(aval.shape(), aval.dtype())
}

/// A tree of the same structure with leaves that have no elements: it keeps nothing of the tree alive.
pub fn structure<T: Tree>(tree: &T) -> T {
    tree.map(&mut |leaf| crate::call::stand_in(leaf.aval()))
}

/// The avals of the leaves of a tree.
pub fn avals<T: Tree>(tree: &T) -> Vec<Aval> {
    let mut out = Vec::new();
    tree.visit(&mut |leaf| out.push(leaf.aval().clone()));
    out
}
