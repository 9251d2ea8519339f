//! Trees: values whose leaves are tensors, and arithmetic on them.
//!
//! The functions of this module take whole trees, such as a model and its gradient:
//!
//! ```
//! use gradloom::prelude::*;
//! use gradloom::tree;
//!
//! #[derive(Tree)]
//! struct Line { slope: Tensor, offset: Tensor }
//!
//! let line = Line { slope: Tensor::from(2.0f32), offset: Tensor::from(1.0f32) };
//! let loss = |line: &Line| (&line.slope * 3.0 + &line.offset).square() + tree::dot(line, line);
//! let gradient = grad(loss)(&line);
//! let next = tree::sub(&line, &tree::scale(&gradient, 0.01));
//! assert!(loss(&next).item::<f32>() < loss(&line).item::<f32>());
//! ```
//!
//! They work in closures under transforms and in traced functions. [`dot()`], [`norm()`] and [`sum()`]
//! are traced. A traced body that calls one of the others is
//! [recorded](macro@crate::traced); write the module before its name, as in `tree::add(..)`, so
//! that the macro can recognise it.

pub(crate) mod arithmetic;
pub(crate) mod key;
pub(crate) mod prefix;
mod summary;

pub use arithmetic::{
    add, assert_close, dot, is_close, leaves_with_paths, map2, norm, scale, sub, sum,
};
pub(crate) use arithmetic::{marks, widened};
pub use key::TreeKey;
pub use summary::{Summary, summary};

use crate::Tensor;
use crate::tree::key::{CallKey, first_reason};
use std::collections::{BTreeMap, VecDeque};

/// A value whose leaves are tensors: a tensor, a tuple, a `Vec`, a model.
///
/// Derive it for structs and enums with `#[derive(Tree)]`. Leaves are visited in the order of the
/// fields. A field marked `#[tree(skip)]` is not a leaf; it is cloned. The leaves of a field marked
/// `#[nodiff]` are frozen: derivatives with respect to them are zero, and optimisers keep them.
///
/// ```
/// use gradloom::prelude::*;
///
/// #[derive(Tree)]
/// struct Layer {
///     w: Tensor,
///     b: Option<Tensor>,
///     #[tree(skip)]
///     name: String,
/// }
///
/// let (w, name) = (Tensor::from([1.0f32, 2.0]), "first".to_owned());
/// let layer = Layer { w, b: None, name };
/// let gradient = grad(|layer: &Layer| layer.w.square().sum(..))(&layer);
/// assert_eq!(gradient.w.to_vec::<f32>(), [2.0, 4.0]);
/// assert!(gradient.b.is_none());
/// assert_eq!(gradient.name, "first");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not implement `Tree`",
    note = "derive it with `#[derive(Tree)]`; if it holds no tensors, mark a field of this type `#[tree(skip)]`, and a parameter of a traced function `#[fixed]`, as in `#[fixed] &self` or `#[fixed] env: &E`"
)]
pub trait Tree: Sized {
    /// Calls `f` with each leaf.
    fn visit(&self, f: &mut dyn FnMut(&Tensor));

    /// Calls `f` with each leaf, which it may replace.
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor));

    /// Returns a tree of the same structure, with `f` applied to each leaf.
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self;

    /// Appends the path of each leaf as a user would write it: `prefix.layers[0].w`.
    fn paths(&self, prefix: &str, out: &mut Vec<String>);

    /// Adds the leaves and the structure to the key of a call.
    ///
    /// `#[derive(Tree)]` implements it. Calls that take a tree with the default implementation are
    /// recorded each time.
    #[doc(hidden)]
    fn __key<'a>(&'a self, key: &mut CallKey<'a>) {
        key.unknown_tree::<Self>();
    }

    /// Appends, for each leaf, whether it is frozen: it is in a field marked `#[nodiff]`.
    ///
    /// `#[derive(Tree)]` implements it.
    #[doc(hidden)]
    fn __frozen(&self, out: &mut Vec<bool>) {
        self.visit(&mut |_| out.push(false));
    }

    /// Reason why a call site cannot cache the skipped fields of a result of this type.
    ///
    /// It depends only on the type. `#[derive(Tree)]` implements it.
    #[doc(hidden)]
    const __SHARED: Option<&'static str> = Some("the `Tree` of the result is not derived");

    /// Reason why no cache key can hold the skipped fields of an argument of this type.
    ///
    /// It depends only on the type. `#[derive(Tree)]` implements it.
    #[doc(hidden)]
    const __UNKEYED: Option<&'static str> = None;
}

/// Returns the leaves of a tree, in order.
pub(crate) fn leaves(tree: &impl Tree) -> Vec<Tensor> {
    let mut out = Vec::new();
    tree.visit(&mut |leaf| out.push(leaf.clone()));
    out
}

/// Returns, for each leaf, whether it is frozen: it keeps its value in a step of an optimiser, and
/// derivatives with respect to it are zero.
pub(crate) fn frozen(tree: &impl Tree) -> Vec<bool> {
    let mut out = Vec::new();
    tree.__frozen(&mut out);
    out
}

/// Returns the leaves that are not frozen.
pub(crate) fn free_leaves(tree: &impl Tree) -> Vec<Tensor> {
    let free = leaves(tree).into_iter().zip(frozen(tree));
    free.filter(|(_, frozen)| !frozen)
        .map(|(leaf, _)| leaf)
        .collect()
}

/// Returns a tree with handles to the same leaves.
pub(crate) fn share<T: Tree>(tree: &T) -> T {
    tree.map(&mut Tensor::clone)
}

/// Returns a tree of zeros with the same structure. The zeros are promises and keep no leaf alive.
pub(crate) fn zeros<T: Tree>(tree: &T) -> T {
    tree.map(&mut Tensor::zeros_like)
}

/// Returns a tree of the same structure with these leaves.
///
/// # Panics
///
/// If there are fewer leaves than in `tree`.
pub(crate) fn with_leaves<T: Tree>(tree: &T, leaves: &[Tensor]) -> T {
    let mut next = leaves.iter();
    tree.map(&mut |_| next.next().expect("as many leaves as in the tree").clone())
}

/// [`with_leaves`] for leaves that a transform computed, which have no batch prefix. Each gets that of the leaf
/// of `tree` that it replaces.
pub(crate) fn with_physical<T: Tree>(tree: &T, leaves: &[Tensor]) -> T {
    let mut next = leaves.iter();
    tree.map(&mut |like| {
        let leaf = next.next().expect("as many leaves as in the tree");
        match like.batch_dims() {
            0 => leaf.clone(),
            n => leaf.with_batch_dims(n),
        }
    })
}

impl Tree for Tensor {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        f(self);
    }
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        f(self);
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        f(self)
    }
    fn paths(&self, prefix: &str, out: &mut Vec<String>) {
        out.push(prefix.to_owned());
    }
    fn __key<'a>(&'a self, key: &mut CallKey<'a>) {
        key.leaf(self);
    }
    const __SHARED: Option<&'static str> = None;
}

/// Implements the methods of a sequence, except for `map`.
macro_rules! sequence {
    () => {
        fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
            self.iter().for_each(|x| x.visit(f));
        }
        fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
            self.iter_mut().for_each(|x| x.visit_mut(f));
        }
        fn paths(&self, prefix: &str, out: &mut Vec<String>) {
            for (i, x) in self.iter().enumerate() {
                x.paths(&format!("{prefix}[{i}]"), out);
            }
        }
        fn __key<'a>(&'a self, key: &mut CallKey<'a>) {
            key.word(self.len() as u64);
            self.iter().for_each(|x| x.__key(key));
        }
        fn __frozen(&self, out: &mut Vec<bool>) {
            self.iter().for_each(|x| x.__frozen(out));
        }
        const __SHARED: Option<&'static str> = T::__SHARED;
        const __UNKEYED: Option<&'static str> = T::__UNKEYED;
    };
}

impl<T: Tree> Tree for Vec<T> {
    sequence!();
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.iter().map(|x| x.map(f)).collect()
    }
}

impl<T: Tree> Tree for VecDeque<T> {
    sequence!();
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.iter().map(|x| x.map(f)).collect()
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    sequence!();
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.each_ref().map(|x| x.map(f))
    }
}

impl<T: Tree> Tree for Option<T> {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.iter().for_each(|x| x.visit(f));
    }
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        self.iter_mut().for_each(|x| x.visit_mut(f));
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.as_ref().map(|x| x.map(f))
    }
    fn paths(&self, prefix: &str, out: &mut Vec<String>) {
        self.iter().for_each(|x| x.paths(prefix, out));
    }
    fn __key<'a>(&'a self, key: &mut CallKey<'a>) {
        key.word(self.is_some().into());
        self.iter().for_each(|x| x.__key(key));
    }
    fn __frozen(&self, out: &mut Vec<bool>) {
        self.iter().for_each(|x| x.__frozen(out));
    }
    const __SHARED: Option<&'static str> = T::__SHARED;
    const __UNKEYED: Option<&'static str> = T::__UNKEYED;
}

impl<T: Tree> Tree for Box<T> {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        (**self).visit(f);
    }
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        (**self).visit_mut(f);
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        Box::new((**self).map(f))
    }
    fn paths(&self, prefix: &str, out: &mut Vec<String>) {
        (**self).paths(prefix, out);
    }
    fn __key<'a>(&'a self, key: &mut CallKey<'a>) {
        (**self).__key(key);
    }
    fn __frozen(&self, out: &mut Vec<bool>) {
        (**self).__frozen(out);
    }
    const __SHARED: Option<&'static str> = T::__SHARED;
    const __UNKEYED: Option<&'static str> = T::__UNKEYED;
}

impl<K: Ord + Clone + std::fmt::Debug, T: Tree> Tree for BTreeMap<K, T> {
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.values().for_each(|x| x.visit(f));
    }
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        self.values_mut().for_each(|x| x.visit_mut(f));
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.iter()
            .map(|(key, x)| (key.clone(), x.map(f)))
            .collect()
    }
    fn paths(&self, prefix: &str, out: &mut Vec<String>) {
        for (key, x) in self {
            x.paths(&format!("{prefix}[{key:?}]"), out);
        }
    }
    fn __key<'a>(&'a self, key: &mut CallKey<'a>) {
        key.word(self.len() as u64);
        key.names(self.keys());
        self.values().for_each(|x| x.__key(key));
    }
    fn __frozen(&self, out: &mut Vec<bool>) {
        self.values().for_each(|x| x.__frozen(out));
    }
    const __SHARED: Option<&'static str> = T::__SHARED;
    const __UNKEYED: Option<&'static str> = T::__UNKEYED;
}

macro_rules! tuple {
    ($($name:ident $index:tt),*) => {
        impl<$($name: Tree),*> Tree for ($($name,)*) {
            #[allow(unused_variables)]
            fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
                $(self.$index.visit(f);)*
            }
            #[allow(unused_variables)]
            fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
                $(self.$index.visit_mut(f);)*
            }
            #[allow(unused_variables, clippy::unused_unit)]
            fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
                ($(self.$index.map(f),)*)
            }
            #[allow(unused_variables)]
            fn paths(&self, prefix: &str, out: &mut Vec<String>) {
                $(self.$index.paths(&format!("{prefix}.{}", $index), out);)*
            }
            #[allow(unused_variables)]
            fn __key<'a>(&'a self, key: &mut CallKey<'a>) {
                $(self.$index.__key(key);)*
            }
            #[allow(unused_variables)]
            fn __frozen(&self, out: &mut Vec<bool>) {
                $(self.$index.__frozen(out);)*
            }
            const __SHARED: Option<&'static str> = first_reason(&[$($name::__SHARED),*]);
            const __UNKEYED: Option<&'static str> = first_reason(&[$($name::__UNKEYED),*]);
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
