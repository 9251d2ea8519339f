//! Results of functions: their leaves and their other values.

use gradloom::{Tensor, Tree};

/// The result of a function.
pub trait Outcome {
    /// Returns the leaves.
    fn leaves(&self) -> Vec<Tensor>;
    /// Returns text that shows everything but the leaves.
    fn note(&self) -> String {
        String::new()
    }
    /// Writes to the values that the result may share with others.
    fn touch(&self) {}
}

impl Outcome for Tensor {
    fn leaves(&self) -> Vec<Tensor> {
        vec![self.clone()]
    }
}

impl Outcome for Vec<Tensor> {
    fn leaves(&self) -> Vec<Tensor> {
        self.clone()
    }
}

impl Outcome for Option<Tensor> {
    fn leaves(&self) -> Vec<Tensor> {
        self.iter().cloned().collect()
    }
}

impl<A: Outcome, B: Outcome> Outcome for (A, B) {
    fn leaves(&self) -> Vec<Tensor> {
        [self.0.leaves(), self.1.leaves()].concat()
    }
    fn note(&self) -> String {
        self.0.note() + &self.1.note()
    }
    fn touch(&self) {
        self.0.touch();
        self.1.touch();
    }
}

/// Returns the leaves of a tree.
pub fn list(tree: &impl Tree) -> Vec<Tensor> {
    let mut out = Vec::new();
    tree.visit(&mut |leaf| out.push(leaf.clone()));
    out
}

/// Returns the tree with other leaves.
///
/// # Panics
///
/// If there are too few leaves.
pub fn with_leaves<T: Tree>(tree: &T, leaves: &[Tensor]) -> T {
    let mut leaves = leaves.iter().cloned();
    tree.map(&mut |_| leaves.next().expect("as many leaves as the tree has"))
}
