//! Code of a body that is not a program: it moves tensors between trees, or is recorded.

use crate::call::companion_pullback::{CompanionPullback, LeafCotangents, NoResiduals};
use crate::call::leaf_range::{LeafRange, TreePart, find};
use crate::call::leaves::{Leaves, avals, copy};
use crate::tree::key::CallKey;
use crate::{Aval, Tensor, Tree};
use std::collections::HashMap;

/// A part of a tree or a local that code reads: a tree, or a value without tensors.
pub struct PartOf<'a, T: ?Sized>(pub &'a T);

/// Returns a tensor by reference; a reference to it is followed.
pub fn tensor_ref(x: &Tensor) -> &Tensor {
    x
}

/// Parts that have leaves, and a position among those of a tree.
pub trait LocatedPart {
    /// Returns the leaves of `root` that the part covers.
    fn found_in<R: Tree>(&self, root: &R) -> LeafRange;
    /// Returns the number of leaves.
    fn n_leaves(&self) -> usize;
}

impl<T: TreePart + ?Sized> LocatedPart for PartOf<'_, T> {
    fn found_in<R: Tree>(&self, root: &R) -> LeafRange {
        find(root, self.0)
    }
    fn n_leaves(&self) -> usize {
        super::n_leaves(self.0)
    }
}

/// Other parts, which method resolution reaches only if the part has no leaves.
pub trait PartWithoutPlace {
    /// Returns an empty range.
    fn found_in<R: Tree>(&self, root: &R) -> LeafRange;
    /// Returns zero.
    fn n_leaves(&self) -> usize;
}

impl<T: ?Sized> PartWithoutPlace for &PartOf<'_, T> {
    fn found_in<R: Tree>(&self, _: &R) -> LeafRange {
        LeafRange { start: 0, len: 0 }
    }
    fn n_leaves(&self) -> usize {
        0
    }
}

/// Parts that are trees.
pub trait TreeOperand<T> {
    /// Form in which a recorded closure takes the part.
    type Captured: Tree;
    /// Returns a copy whose leaves share their tensors.
    fn copied(&self) -> T;
    /// Returns the argument of a recorded closure.
    fn captured(&self) -> Self::Captured;
    /// Returns the next operand of code that moves tensors.
    fn moved_by(&self, moved: &mut MovedLeaves) -> T;
}

impl<T: Tree> TreeOperand<T> for PartOf<'_, T> {
    type Captured = Captured<T>;
    fn copied(&self) -> T {
        copy(self.0)
    }
    fn captured(&self) -> Captured<T> {
        Captured(copy(self.0))
    }
    fn moved_by(&self, moved: &mut MovedLeaves) -> T {
        moved.add(self.0)
    }
}

impl<T: Tree> TreeOperand<Vec<T>> for PartOf<'_, [T]> {
    type Captured = Captured<Vec<T>>;
    fn copied(&self) -> Vec<T> {
        self.0.iter().map(copy).collect()
    }
    fn captured(&self) -> Captured<Vec<T>> {
        Captured(self.copied())
    }
    fn moved_by(&self, moved: &mut MovedLeaves) -> Vec<T> {
        moved.add(&self.copied())
    }
}

/// Other parts, which method resolution reaches only if the part is not a tree. They have no leaves.
pub trait SkippedPart<T> {
    /// Form in which a recorded closure takes the part.
    type Captured: Tree;
    /// Returns a clone.
    fn copied(&self) -> T;
    /// Returns the argument of a recorded closure.
    fn captured(&self) -> Self::Captured;
    /// Returns the next operand of code that moves tensors.
    fn moved_by(&self, moved: &mut MovedLeaves) -> T;
}

impl<T: Clone> SkippedPart<T> for &PartOf<'_, T> {
    type Captured = CapturedValue<T>;
    fn copied(&self) -> T {
        self.0.clone()
    }
    fn captured(&self) -> CapturedValue<T> {
        CapturedValue(self.0.clone())
    }
    fn moved_by(&self, moved: &mut MovedLeaves) -> T {
        moved.likes.push(Vec::new());
        self.0.clone()
    }
}

/// A tree that a recorded closure takes.
pub struct Captured<T>(T);

impl<T: Tree> Captured<T> {
    /// Returns the tree by reference.
    pub fn by_ref(&self) -> &T {
        &self.0
    }
    /// Returns a copy of the tree.
    pub fn owned(&self) -> T {
        copy(&self.0)
    }
}

impl<T: Tree> Tree for Captured<T> {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.0.visit(f);
    }
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        self.0.visit_mut(f);
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        Captured(self.0.map(f))
    }
    fn paths(&self, prefix: &str, out: &mut Vec<String>) {
        self.0.paths(prefix, out);
    }
    fn __key<'a>(&'a self, key: &mut CallKey<'a>) {
        self.0.__key(key);
    }
    fn __frozen(&self, out: &mut Vec<bool>) {
        self.0.__frozen(out);
    }
}

/// A value without tensors that a recorded closure takes.
pub struct CapturedValue<T>(T);

impl<T: Clone> CapturedValue<T> {
    /// Returns the value by reference.
    pub fn by_ref(&self) -> &T {
        &self.0
    }
    /// Returns a clone of the value.
    pub fn owned(&self) -> T {
        self.0.clone()
    }
}

impl<T: Clone> Tree for CapturedValue<T> {
    fn visit(&self, _: &mut dyn FnMut(&Tensor)) {}
    fn visit_mut(&mut self, _: &mut dyn FnMut(&mut Tensor)) {}
    fn map(&self, _: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        CapturedValue(self.0.clone())
    }
    fn paths(&self, _: &str, _: &mut Vec<String>) {}
}

/// Leaves that code moves from its operands to its result, by their identity.
#[derive(Default)]
pub struct MovedLeaves {
    /// Operand and number of each leaf, by its address.
    from: HashMap<usize, (usize, usize)>,
    /// Handles that keep these addresses taken.
    held: Vec<Tensor>,
    likes: Vec<Vec<Aval>>,
}

impl MovedLeaves {
    /// Creates the list for code without operands.
    pub fn new() -> MovedLeaves {
        MovedLeaves::default()
    }

    /// Returns a copy of the next operand.
    ///
    /// Of a tensor that occurs twice the second is another one of the same value, so that the
    /// leaves of the result tell where they come from.
    fn add<T: Tree>(&mut self, tree: &T) -> T {
        let operand = self.likes.len();
        self.likes.push(avals(tree));
        let mut leaf = 0;
        tree.map(&mut |x| {
            let x = match self.from.contains_key(&x.address()) {
                true => x.unsqueeze(0).squeeze(0),
                false => x.clone(),
            };
            self.from.insert(x.address(), (operand, leaf));
            self.held.push(x.clone());
            leaf += 1;
            x
        })
    }

    /// Returns the operand and number of each leaf of the result.
    fn origins<T: Tree>(&self, result: &T) -> Vec<Option<(usize, usize)>> {
        let mut origins = Vec::new();
        result.visit(&mut |x| origins.push(self.from.get(&x.address()).copied()));
        origins
    }

    /// Returns the pullback from the cotangents of the result to those of the operands.
    pub fn pullback<T: Tree>(self, result: &T) -> CompanionPullback {
        let (origins, n) = (self.origins(result), self.likes.len());
        CompanionPullback::new(self.likes, 0, NoResiduals, move |_, cts| {
            let mut pulled = LeafCotangents::new(n);
            for (ct, origin) in cts.iter().zip(&origins) {
                if let (Some(ct), Some((operand, leaf))) = (ct, origin) {
                    pulled.add(*operand, *leaf, ct);
                }
            }
            pulled
        })
    }

    /// Returns the tangents of the result, given those of the operands.
    pub fn tangents<T: Tree>(&self, result: &T, given: &[Leaves]) -> Leaves {
        let origins = self.origins(result).into_iter();
        let tangent = |(operand, leaf): (usize, usize)| given[operand].get(leaf).cloned().flatten();
        origins.map(|origin| origin.and_then(tangent)).collect()
    }
}
