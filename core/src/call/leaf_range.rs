//! Positions of parts of a tree among its leaves.

use crate::call::leaf::LeafOperand;
use crate::call::leaves::Leaves;
use crate::{Tensor, Tree};

/// Range of leaves that a part of a tree covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafRange {
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// A part of a tree: a tree, or a part of a list.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement `Tree`",
    note = "derive it with `#[derive(Tree)]`; if it holds no tensors, mark a field of this type `#[tree(skip)]`, and a parameter of a traced function `#[fixed]`, as in `#[fixed] &self` or `#[fixed] env: &E`"
)]
pub trait TreePart {
    /// Calls `f` with each leaf.
    fn visit_part(&self, f: &mut dyn FnMut(&Tensor));
}

impl<T: Tree> TreePart for T {
    fn visit_part(&self, f: &mut dyn FnMut(&Tensor)) {
        self.visit(f);
    }
}

impl<T: Tree> TreePart for [T] {
    fn visit_part(&self, f: &mut dyn FnMut(&Tensor)) {
        self.iter().for_each(|x| x.visit(f));
    }
}

/// Returns the leaves of `root` that its part `place` covers. A part is identified by its address.
pub fn find<R: Tree, T: TreePart + ?Sized>(root: &R, place: &T) -> LeafRange {
    let (mut first, mut len) = (None, 0);
    place.visit_part(&mut |leaf| {
        first.get_or_insert(std::ptr::from_ref(leaf));
        len += 1;
    });
    position(root, first, len)
}

/// [`find`] for a field that an op reads. A number covers no leaf.
pub fn find_leaf<R: Tree>(root: &R, place: &dyn LeafOperand) -> LeafRange {
    let first = place.tensor().map(std::ptr::from_ref);
    position(root, first, usize::from(first.is_some()))
}

fn position<R: Tree>(root: &R, first: Option<*const Tensor>, len: usize) -> LeafRange {
    let Some(first) = first else {
        return LeafRange { start: 0, len: 0 };
    };
    let (mut start, mut next) = (None, 0);
    root.visit(&mut |leaf| {
        if std::ptr::eq(leaf, first) {
            start.get_or_insert(next);
        }
        next += 1;
    });
    match start {
        Some(start) => LeafRange { start, len },
        // A field that the tree skips has no derivative.
        None => LeafRange { start: 0, len: 0 },
    }
}

/// Returns the range of all leaves of a tree.
pub fn whole<T: Tree>(tree: &T) -> LeafRange {
    let mut len = 0;
    tree.visit(&mut |_| len += 1);
    LeafRange { start: 0, len }
}

/// Returns the ranges of trees with the given numbers of leaves, one after the other.
pub fn positions<const N: usize>(lengths: [usize; N]) -> [LeafRange; N] {
    let mut start = 0;
    lengths.map(|len| {
        let range = LeafRange { start, len };
        start += len;
        range
    })
}

/// Returns the leaf at a position, or `None` if it is missing or zero.
pub fn given_leaf_at(leaves: &[Option<Tensor>], at: LeafRange) -> Option<Tensor> {
    leaves.get(at.start).cloned().flatten()
}

/// Returns the leaves of a part of a tree.
pub fn part(leaves: &[Option<Tensor>], at: LeafRange) -> Leaves {
    (at.start..at.start + at.len)
        .map(|i| leaves.get(i).cloned().flatten())
        .collect()
}
