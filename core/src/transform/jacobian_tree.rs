//! Trees of the blocks of a Jacobian.

use crate::tree::{frozen, leaves, zeros};
use crate::{Tensor, Tree};
use std::collections::{BTreeMap, VecDeque};

/// Result of a function that has a Jacobian: a tree, with a place for a tree of blocks in each leaf.
///
/// [`Blocks`](JacobianTree::Blocks) of a tuple or a list has its structure. That of a struct is
/// [`JacobianRows`]. `#[derive(Tree)]` implements this trait.
///
/// ```
/// use gradloom::{JacobianTree, Tensor, jacrev};
///
/// type Pair = (Tensor, Tensor);
/// let x = (Tensor::from([1.0f32, 2.0]), Tensor::from(3.0f32));
/// let f = |(a, b): &Pair| (a * b, b.square());
/// let j: <Pair as JacobianTree>::Blocks<Pair> = jacrev(f)(&x);
/// // The change of `a * b` with `b`, then of `b * b` with `b`.
/// assert_eq!(j.0.1.to_vec::<f32>(), [1.0, 2.0]);
/// assert_eq!(j.1.1.to_vec::<f32>(), [6.0]);
/// ```
#[diagnostic::on_unimplemented(
    message = "a function with result `{Self}` has no Jacobian",
    note = "return a tensor, a tuple or a list of them, or a type with `#[derive(Tree)]`"
)]
pub trait JacobianTree: Tree {
    /// Tree of this structure that has an `X` for each leaf.
    type Blocks<X: Tree>: Tree;

    /// Returns the tree that has the next of these values for each leaf, in order.
    #[doc(hidden)]
    fn __blocks<X: Tree>(&self, rows: &mut dyn Iterator<Item = X>) -> Self::Blocks<X>;
}

/// Jacobian of a function whose result is a struct: for each leaf of the result, a tree of the
/// structure of the argument.
///
/// ```
/// use gradloom::prelude::*;
///
/// #[derive(Tree)]
/// struct Line { slope: Tensor, offset: Tensor }
///
/// let line = Line { slope: Tensor::from([1.0f64, 2.0]), offset: Tensor::from(3.0f64) };
/// let f = |line: &Line| (&line.slope * &line.offset.square()).sum(..);
/// let h = hessian(f)(&line);
/// // The second derivatives by `slope` and `offset`: the axes of `slope`, then those of `offset`.
/// assert_eq!(h.row(|line| &line.slope).offset.to_vec::<f64>(), [6.0, 6.0]);
/// assert_eq!(h.row(|line| &line.offset).offset.to_vec::<f64>(), [6.0]);
/// ```
#[derive(Clone, Debug)]
pub struct JacobianRows<Y, X> {
    /// Zeros in the structure of the result.
    result: Y,
    /// The row of each leaf of the result, in order.
    rows: Vec<X>,
}

impl<Y: Tree, X: Tree> JacobianRows<Y, X> {
    #[doc(hidden)]
    pub fn __new(result: &Y, rows: &mut dyn Iterator<Item = X>) -> JacobianRows<Y, X> {
        let rows = rows.take(leaves(result).len()).collect();
        let result = zeros(result);
        JacobianRows { result, rows }
    }

    /// Returns the derivatives of one leaf of the result: a block for each leaf of the argument.
    ///
    /// The axes of a block are those of the leaf of the result, then those of the leaf of the
    /// argument. The closure chooses the leaf, as in `h.row(|model| &model.layers[0].w)`.
    ///
    /// # Panics
    ///
    /// If the closure returns a tensor that is not a leaf of its argument.
    #[track_caller]
    pub fn row(&self, leaf: impl FnOnce(&Y) -> &Tensor) -> &X {
        let chosen = leaf(&self.result);
        let (mut n, mut found) = (0, None);
        self.result.visit(&mut |leaf| {
            if std::ptr::eq(leaf, chosen) {
                found = Some(n);
            }
            n += 1;
        });
        match found {
            Some(i) => &self.rows[i],
            None => panic!(
                "`row`: the closure returned a tensor that is not a leaf of its argument; return a reference to a leaf"
            ),
        }
    }
}

impl<Y: Tree, X: Tree> Tree for JacobianRows<Y, X> {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.rows.visit(f);
    }
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        self.rows.visit_mut(f);
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        JacobianRows {
            result: zeros(&self.result),
            rows: self.rows.map(f),
        }
    }
    fn paths(&self, prefix: &str, out: &mut Vec<String>) {
        let mut of_rows = Vec::new();
        self.result.paths(prefix, &mut of_rows);
        for (row, path) in self.rows.iter().zip(&of_rows) {
            row.paths(path, out);
        }
    }
    fn __frozen(&self, out: &mut Vec<bool>) {
        // The row of a frozen leaf is zero, and may have its dtype.
        for (row, is_frozen) in self.rows.iter().zip(frozen(&self.result)) {
            let before = out.len();
            row.__frozen(out);
            out[before..].iter_mut().for_each(|leaf| *leaf |= is_frozen);
        }
    }
}

impl<Y: Tree, X: Tree> JacobianTree for JacobianRows<Y, X> {
    type Blocks<Z: Tree> = JacobianRows<Self, Z>;
    fn __blocks<Z: Tree>(&self, rows: &mut dyn Iterator<Item = Z>) -> Self::Blocks<Z> {
        JacobianRows::__new(self, rows)
    }
}

impl JacobianTree for Tensor {
    type Blocks<X: Tree> = X;
    fn __blocks<X: Tree>(&self, rows: &mut dyn Iterator<Item = X>) -> X {
        rows.next().expect("a row for each leaf of the result")
    }
}

impl<T: JacobianTree> JacobianTree for Vec<T> {
    type Blocks<X: Tree> = Vec<T::Blocks<X>>;
    fn __blocks<X: Tree>(&self, rows: &mut dyn Iterator<Item = X>) -> Self::Blocks<X> {
        self.iter().map(|y| y.__blocks(rows)).collect()
    }
}

impl<T: JacobianTree> JacobianTree for VecDeque<T> {
    type Blocks<X: Tree> = VecDeque<T::Blocks<X>>;
    fn __blocks<X: Tree>(&self, rows: &mut dyn Iterator<Item = X>) -> Self::Blocks<X> {
        self.iter().map(|y| y.__blocks(rows)).collect()
    }
}

impl<T: JacobianTree, const N: usize> JacobianTree for [T; N] {
    type Blocks<X: Tree> = [T::Blocks<X>; N];
    fn __blocks<X: Tree>(&self, rows: &mut dyn Iterator<Item = X>) -> Self::Blocks<X> {
        self.each_ref().map(|y| y.__blocks(rows))
    }
}

impl<T: JacobianTree> JacobianTree for Option<T> {
    type Blocks<X: Tree> = Option<T::Blocks<X>>;
    fn __blocks<X: Tree>(&self, rows: &mut dyn Iterator<Item = X>) -> Self::Blocks<X> {
        self.as_ref().map(|y| y.__blocks(rows))
    }
}

impl<T: JacobianTree> JacobianTree for Box<T> {
    type Blocks<X: Tree> = Box<T::Blocks<X>>;
    fn __blocks<X: Tree>(&self, rows: &mut dyn Iterator<Item = X>) -> Self::Blocks<X> {
        Box::new((**self).__blocks(rows))
    }
}

impl<K: Ord + Clone + std::fmt::Debug, T: JacobianTree> JacobianTree for BTreeMap<K, T> {
    type Blocks<X: Tree> = BTreeMap<K, T::Blocks<X>>;
    fn __blocks<X: Tree>(&self, rows: &mut dyn Iterator<Item = X>) -> Self::Blocks<X> {
        let parts = self.iter();
        parts.map(|(k, y)| (k.clone(), y.__blocks(rows))).collect()
    }
}

macro_rules! tuple {
    ($($name:ident $index:tt),*) => {
        impl<$($name: JacobianTree),*> JacobianTree for ($($name,)*) {
            type Blocks<__X: Tree> = ($($name::Blocks<__X>,)*);
            #[allow(unused_variables, clippy::unused_unit)]
            fn __blocks<__X: Tree>(&self, rows: &mut dyn Iterator<Item = __X>) -> Self::Blocks<__X> {
                ($(self.$index.__blocks(rows),)*)
            }
        }
    };
}

tuple!();
tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
