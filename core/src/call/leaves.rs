//! Trees as lists of their leaves.
//!
//! Companions exchange tangents and cotangents in this form. A zero is `None`, and zeros at the end
//! may be omitted.

use crate::call::leaf_range::{part, positions};
pub(crate) use crate::transform::stand_in;
use crate::tree::share;
use crate::{Aval, Key, Tensor, Tree};
use std::sync::Arc;

/// Leaves of one tree. `None` stands for zero.
pub type Leaves = Vec<Option<Tensor>>;

/// Clones the handle of a tensor.
pub fn share_tensor(x: &Tensor) -> Tensor {
    x.clone()
}

/// Residuals that share one field.
pub type List<T> = Arc<[T]>;

/// Clones the handles of tensors.
pub fn share_tensors(tensors: &[&Tensor]) -> List<Tensor> {
    tensors.iter().map(|x| share_tensor(x)).collect()
}

/// Returns the avals of tensors.
pub fn avals_all(tensors: &[&Tensor]) -> List<Aval> {
    tensors.iter().map(|x| x.aval().clone()).collect()
}

/// Returns the elements of a list of known length.
pub fn elements<T, const N: usize>(list: &List<T>) -> [&T; N] {
    let elements: &[T; N] = (&**list)
        .try_into()
        .expect("the list of residuals has the length that the macro emitted");
    elements.each_ref()
}

/// Returns the only leaf of a tensor.
pub fn leaf(x: &Tensor) -> Leaves {
    vec![Some(x.clone())]
}

/// Returns the leaves of a result.
pub fn leaves<const N: usize>(leaves: [Option<Tensor>; N]) -> Leaves {
    leaves.into()
}

/// Returns the leaves of several results, of which the numbers of leaves are given.
pub fn join_leaves<const N: usize>(results: [(usize, Leaves); N]) -> Leaves {
    joined(results.into_iter())
}

pub(crate) fn joined(results: impl Iterator<Item = (usize, Leaves)>) -> Leaves {
    let padded = results.flat_map(|(n, leaves)| {
        let zeros = std::iter::repeat(None);
        leaves.into_iter().chain(zeros).take(n)
    });
    padded.collect()
}

/// Returns the leaves of each result, of which the numbers of leaves are given.
pub fn split_leaves<const N: usize>(leaves: &[Option<Tensor>], lengths: [usize; N]) -> [Leaves; N] {
    let ranges = positions(lengths);
    ranges.map(|range| part(leaves, range))
}

/// Computes `x + y`, leaf by leaf.
#[track_caller]
pub fn sum_leaves(x: &[Option<Tensor>], y: &[Option<Tensor>]) -> Leaves {
    let n = x.len().max(y.len());
    let leaf = |leaves: &[Option<Tensor>], i: usize| leaves.get(i).cloned().flatten();
    let sums = (0..n).map(|i| match (leaf(x, i), leaf(y, i)) {
        (Some(x), Some(y)) => Some(x + y),
        (x, y) => x.or(y),
    });
    sums.collect()
}

/// Clones the trees of a list: the leaves share their tensors.
pub fn copy_list<T: Tree>(list: &[T]) -> Vec<T> {
    list.iter().map(copy).collect()
}

/// Returns the list of the results of `f` for each element.
pub fn map_list<'a, T, U>(list: &'a [T], f: impl FnMut(&'a T) -> U) -> Vec<U> {
    list.iter().map(f).collect()
}

/// Returns the key in a tree, whose uses in the body are those of a copy.
pub fn key_of(key: &Key) -> Key {
    share(key)
}

/// A host value that a segment of a loop copies.
pub struct HostCopy<'a, T>(pub &'a T);

impl<T> Clone for HostCopy<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for HostCopy<'_, T> {}

/// Copies a host value that is `Clone`.
pub trait CopyByClone<T> {
    /// Returns the copy.
    fn copied(self) -> T;
}

impl<T: Clone> CopyByClone<T> for &HostCopy<'_, T> {
    fn copied(self) -> T {
        self.0.clone()
    }
}

/// Copies random keys, which are not `Clone`. Method resolution prefers [`CopyByClone`].
pub trait CopyByMap<T> {
    /// Returns the copy.
    fn copied(self) -> T;
}

impl<T: Tree> CopyByMap<T> for HostCopy<'_, T> {
    fn copied(self) -> T {
        share(self.0)
    }
}

/// Clones a tree: the leaves share their tensors.
pub fn copy<T: Tree>(tree: &T) -> T {
    share(tree)
}

/// Returns zeros with the shape and dtype of an aval.
pub fn zeros(aval: &Aval) -> Tensor {
    Tensor::zeros(aval.physical_shape(), aval.dtype()).with_batch_dims(aval.batch_dims())
}

/// Returns a tree of the same structure whose leaves have no elements. It keeps no tensor alive.
pub fn structure<T: Tree>(tree: &T) -> T {
    tree.map(&mut |leaf| stand_in(leaf.aval()))
}

/// Returns the avals of the leaves of a tree.
pub fn avals<T: Tree>(tree: &T) -> Vec<Aval> {
    let mut out = Vec::new();
    tree.visit(&mut |leaf| out.push(leaf.aval().clone()));
    out
}

/// Builds a tree from leaves. Missing leaves are zeros, and each leaf gets the batch prefix of that in `like`.
pub(crate) fn filled<T: Tree>(like: &T, leaves: &[Option<Tensor>]) -> T {
    let mut next = leaves.iter();
    like.map(&mut |leaf| match next.next().cloned().flatten() {
        Some(found) => in_dtype_of(found, leaf.aval()).as_cotangent_of(leaf.aval()),
        None => zeros(leaf.aval()),
    })
}

/// Returns the cotangent of a value with the aval `of`, in its dtype.
///
/// A derivative that was made at compile time does not know that an op casts operands of several dtypes to one of them
/// when it is recorded. So the cotangent may have the dtype after the cast.
pub(crate) fn in_dtype_of(ct: Tensor, of: &Aval) -> Tensor {
    match ct.dtype() == of.dtype() {
        true => ct,
        false => ct.cast(of.dtype()),
    }
}
