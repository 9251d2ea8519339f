//! Tangents and cotangents that may be zero, where only the run of the host code tells. `None` is zero.

use super::{At, Leaves, Pulled, part};
use crate::{Aval, Tensor, Tree};

/// Adds to a cotangent.
#[track_caller]
pub fn accumulate(total: &mut Option<Tensor>, ct: &Tensor) {
    *total = sum(total.as_ref(), Some(ct));
}

/// `x + y`.
#[track_caller]
pub fn sum(x: Option<&Tensor>, y: Option<&Tensor>) -> Option<Tensor> {
    match (x, y) {
        (Some(x), Some(y)) => Some(x + y),
        (x, y) => x.or(y).cloned(),
    }
}

/// `x - y`.
#[track_caller]
pub fn difference(x: Option<&Tensor>, y: Option<&Tensor>) -> Option<Tensor> {
    match (x, y) {
        (Some(x), Some(y)) => Some(x - y),
        (None, Some(y)) => Some(-y),
        (x, None) => x.cloned(),
    }
}

/// The operands of an op that joins several: zeros for those that are zero, unless all are. `likes` are the avals, where
/// not all operands have the same.
pub fn fill<const N: usize>(
    values: [Option<&Tensor>; N],
    likes: Option<[&Aval; N]>,
) -> Option<[Tensor; N]> {
    let given = values.iter().flatten().next()?;
    Some(std::array::from_fn(|i| match (values[i], &likes) {
        (Some(value), _) => value.clone(),
        (None, Some(likes)) => super::zeros(likes[i]),
        (None, None) => super::zeros(given.aval()),
    }))
}

/// The leaf at a position, if it is given and is not zero.
pub fn given_leaf(leaves: &[Option<Tensor>], i: usize) -> Option<Tensor> {
    leaves.get(i).cloned().flatten()
}

/// The tangent of a tensor in a tree.
pub fn maybe_at(given: &[Option<Tensor>], at: At) -> Option<Tensor> {
    let leaves: Leaves = part(given, at);
    given_leaf(&leaves, 0)
}

impl Pulled {
    /// The cotangent of a parameter that is a tensor, if it is not zero.
    pub fn given(&self, param: usize) -> Option<Tensor> {
        given_leaf(self.leaves(param), 0)
    }
}

/// Finds a tree, or a number in one, behind a reference or not, as a method call does.
pub trait Located {
    /// The tree or the number where it lies.
    fn located(&self) -> &Self;
}

impl<T: Tree> Located for T {
    fn located(&self) -> &T {
        self
    }
}

macro_rules! numbers {
    ($($ty:ident)*) => {$(
        impl Located for $ty {
            fn located(&self) -> &$ty {
                self
            }
        }
    )*};
}
numbers! { f32 f64 i32 i64 usize }
