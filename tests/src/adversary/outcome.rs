//! Results of functions: leaves, and what else there is in them.

use gradloom::{Tensor, Tree};

/// The result of a function.
pub trait Outcome {
    /// The leaves.
    fn leaves(&self) -> Vec<Tensor>;
    /// Text for all that is not a leaf.
    fn note(&self) -> String {
        String::new()
    }
    /// Writes to what the result may share with others.
    fn touch(&self) {}
}

impl Outcome for Tensor {
    fn leaves(&self) -> Vec<Tensor> {
        vec![self.clone()]
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

/// The leaves of a tree.
pub fn list(tree: &impl Tree) -> Vec<Tensor> {
    let mut out = Vec::new();
    tree.visit(&mut |leaf| out.push(leaf.clone()));
    out
}

/// The tree with other leaves.
///
/// # Panics
///
/// If there are too few.
pub fn with_leaves<T: Tree>(tree: &T, leaves: &[Tensor]) -> T {
    let mut leaves = leaves.iter().cloned();
    tree.map(&mut |_| leaves.next().expect("there is a leaf for each"))
}
