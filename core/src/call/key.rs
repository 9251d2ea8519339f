//! What the plan of a call depends on: the arguments but for their elements.

use super::no_args;
use crate::node::Shared;
use crate::spare::{keep_room, take_room};
use crate::{Aval, DType, Tensor, Tree};
use smallvec::SmallVec;
use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Deref, Range, RangeInclusive};
use std::rc::Rc;
use std::sync::Arc;

thread_local! {
    /// Memory for the words of the next key.
    static WORDS: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// The arguments of a call as its site sees them: the leaves, and words for the structure and for static values.
///
/// All keys of one site are made by the same code for the same types, so words need not say what they stand for, only
/// how many follow where that varies.
pub struct CallKey<'a> {
    pub(super) leaves: Leaves<'a>,
    pub(super) words: Vec<u64>,
    /// Which instance of a generic function is called.
    instance: Option<TypeId>,
    others: Vec<&'a dyn Same>,
    known: bool,
    /// Whether neither structure nor static values matter.
    only_leaves: bool,
}

/// The leaves of a key.
type Leaves<'a> = SmallVec<[Leaf<'a>; 16]>;

/// A leaf, which lives as long as the key.
pub(super) enum Leaf<'a> {
    Borrowed(&'a Shared),
    Owned(Shared),
}

impl Deref for Leaf<'_> {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        match self {
            Leaf::Borrowed(value) => value,
            Leaf::Owned(value) => value,
        }
    }
}

impl<'a> CallKey<'a> {
    pub(super) fn new() -> CallKey<'a> {
        CallKey {
            leaves: Leaves::new(),
            words: take_room(&WORDS),
            instance: None,
            others: Vec::new(),
            known: true,
            only_leaves: false,
        }
    }

    /// Which instance of a generic function is called, by the type of a function that has its types and constants: all instances
    /// share a site. Lifetimes do not count, for they decide nothing.
    pub fn instance<F>(&mut self, _: &F) {
        self.instance = Some(typeid::of::<F>());
    }

    /// The next leaf. An op that has not run, and a transform that traces through the value, want the call's ops.
    pub fn leaf(&mut self, x: &'a Tensor) {
        self.push(&x.0, Leaf::Borrowed(&x.0));
    }

    /// The same for a leaf that nobody can lend.
    pub(super) fn leaf_of(&mut self, x: &Shared) {
        if self.known {
            self.push(x, Leaf::Owned(x.clone()));
        }
    }

    /// The words of a random key, which are a leaf. A random key beside the leaves of a tree is no matter of who asks for these alone.
    pub(crate) fn words_of_key(&mut self, words: &Tensor) {
        if !self.only_leaves {
            self.leaf_of(&words.0);
        }
    }

    fn push(&mut self, x: &Shared, leaf: Leaf<'a>) {
        self.known = self.known && x.is_free();
        if self.known {
            self.leaves.push(leaf);
        }
    }

    /// The leaves of a tree, whatever its structure.
    pub(crate) fn tree<T: Tree>(&mut self, tree: &'a T) {
        if !self.known {
            return;
        }
        let before = self.leaves.len();
        self.only_leaves = true;
        tree.__key(self);
        self.only_leaves = false;
        // A tree that does not know how to add itself shows its leaves.
        if !self.known {
            self.known = true;
            self.leaves.truncate(before);
            tree.visit(&mut |leaf| self.leaf_of(&leaf.0));
        }
        self.word((self.leaves.len() - before) as u64);
    }

    /// The leaves, for a call that keeps them.
    pub(super) fn args(&self) -> Vec<Shared> {
        let mut args = no_args();
        args.extend(self.leaves.iter().map(|leaf| Shared::clone(leaf)));
        args
    }

    /// A word for the structure.
    pub fn word(&mut self, word: u64) {
        if !self.only_leaves {
            self.words.push(word);
        }
    }

    /// There is something that a key cannot hold: then the call is recorded.
    pub fn unknown(&mut self) {
        self.known = false;
    }

    /// Whether the key says all that the plan depends on.
    pub(super) fn is_known(&self) -> bool {
        self.known
    }

    /// The key without what it borrows. Equal arguments after the first are part of it, because a plan that was made for
    /// them may not do for others.
    pub(super) fn own(&self) -> OwnedKey {
        let mut aliases = Vec::new();
        for (i, leaf) in self.leaves.iter().enumerate() {
            let first = self.leaves[..i]
                .iter()
                .position(|x| Shared::ptr_eq(x, leaf));
            aliases.extend(first.map(|first| (first as u32, i as u32)));
        }
        OwnedKey {
            avals: self.leaves.iter().map(|x| x.aval.clone()).collect(),
            aliases: aliases.into(),
            words: self.words[..].into(),
            instance: self.instance,
            others: self.others.iter().map(|x| x.own()).collect(),
        }
    }
}

impl Drop for CallKey<'_> {
    fn drop(&mut self) {
        self.words.clear();
        keep_room(&WORDS, std::mem::take(&mut self.words));
    }
}

/// A key to compare with.
pub(super) struct OwnedKey {
    avals: Box<[Aval]>,
    /// Leaves that are the same value.
    aliases: Box<[(u32, u32)]>,
    words: Box<[u64]>,
    instance: Option<TypeId>,
    others: Box<[Box<dyn Any>]>,
}

impl OwnedKey {
    /// Whether it is of a call of the same instance of a function.
    pub(super) fn is_of_instance_of(&self, other: &OwnedKey) -> bool {
        self.instance == other.instance
    }

    /// Whether the plan for this key does for another. It does for values that are the same by chance.
    pub(super) fn fits(&self, key: &CallKey<'_>) -> bool {
        let leaves = &key.leaves;
        let same = |(i, j): &(u32, u32)| Shared::ptr_eq(&leaves[*i as usize], &leaves[*j as usize]);
        self.instance == key.instance
            && *self.words == *key.words
            && self.avals.len() == leaves.len()
            && self.avals.iter().zip(leaves).all(|(a, x)| *a == x.aval)
            && self.aliases.iter().all(same)
            && self.others.len() == key.others.len()
            && self
                .others
                .iter()
                .zip(&key.others)
                .all(|(a, b)| b.same(&**a))
    }
}

/// A static value that is compared with a clone of it.
pub trait Same {
    /// Whether it is equal to a value of its type.
    fn same(&self, other: &dyn Any) -> bool;
    /// A clone.
    fn own(&self) -> Box<dyn Any>;
}

impl<T: Eq + Clone + 'static> Same for T {
    fn same(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>().is_some_and(|other| self == other)
    }
    fn own(&self) -> Box<dyn Any> {
        Box::new(self.clone())
    }
}

/// A static argument, on its way to the key. What is done with it depends on its type: a method call finds the first of
/// [`Mutable`], [`ByWords`], [`ByClone`], [`BySize`] and [`Unknown`] that takes it.
pub struct Static<'a, T: ?Sized>(pub &'a T);

/// Whether a key can hold the values of a type.
pub trait Fit {
    /// Whether it can, as they are.
    const BY_VALUE: bool;
    /// Whether it can, or need not because there is but one value.
    const FITS: bool = Self::BY_VALUE;
}

/// A key can hold the values of the type.
pub struct Always;

impl Fit for Always {
    const BY_VALUE: bool = true;
}

/// It need not if there are no bytes to hold.
pub struct WithoutBytes<T>(PhantomData<T>);

impl<T> Fit for WithoutBytes<T> {
    const BY_VALUE: bool = false;
    const FITS: bool = size_of::<T>() == 0;
}

/// It cannot.
pub struct Never;

impl Fit for Never {
    const BY_VALUE: bool = false;
}

/// Whether a key can hold a constant or a static. The function that has its type never runs. Without bytes it may still stand for
/// what is elsewhere, such as a tensor that is made lazily.
pub const fn global_fits<R: Fit, F: Fn() -> R>(_: &F) -> bool {
    R::BY_VALUE
}

/// Whether a key can hold a static argument.
pub const fn argument_fits<T, R: Fit, F: Fn(T) -> R>(_: &F) -> bool {
    R::FITS
}

/// A value that words stand for; different values have different words, floats with different bits included.
pub trait Words {
    /// Appends the words.
    fn words(&self, key: &mut CallKey<'_>);
}

/// A tree by its leaves and its structure. What is no tree has an error of its own at the function's signature.
pub trait ByTree<'a> {
    /// Adds it.
    fn add_tree_to_key(self, key: &mut CallKey<'a>);
}

impl<'a, T: Tree> ByTree<'a> for &&Static<'a, T> {
    fn add_tree_to_key(self, key: &mut CallKey<'a>) {
        self.0.__key(key);
    }
}

/// What is no tree.
pub trait NoTree {
    /// Says so.
    fn add_tree_to_key(self, key: &mut CallKey<'_>);
}

impl<T: ?Sized> NoTree for &Static<'_, T> {
    fn add_tree_to_key(self, key: &mut CallKey<'_>) {
        key.unknown();
    }
}

/// A static argument by its words.
pub trait ByWords: Sized {
    /// Adds it.
    fn add_to_key(self, key: &mut CallKey<'_>);
    /// Whether a key can hold it.
    fn fits_in_key(self) -> Always {
        Always
    }
}

impl<T: Words + ?Sized> ByWords for &&&&Static<'_, T> {
    fn add_to_key(self, key: &mut CallKey<'_>) {
        self.0.words(key);
    }
}

/// A static argument that is equal to a clone of it whatever it does: a function pointer, a cell that its clones share.
pub trait Mutable: Sized {
    /// Says that a key cannot hold it.
    fn add_to_key(self, key: &mut CallKey<'_>);
    /// Whether a key can hold it.
    fn fits_in_key(self) -> Never {
        Never
    }
}

macro_rules! mutable {
    ($([$($params:tt)*] $ty:ty;)*) => {$(
        // A pointer to a function of references is a type of its own.
        #[allow(coherence_leak_check)]
        impl<$($params)*> Mutable for &&&&&Static<'_, $ty> {
            fn add_to_key(self, key: &mut CallKey<'_>) {
                if !key.only_leaves {
                    key.unknown();
                }
            }
        }
    )*};
}
mutable! {
    [R] fn() -> R;
    [A, R] fn(A) -> R;
    [A: ?Sized, R] fn(&A) -> R;
    [A, B, R] fn(A, B) -> R;
    [A: ?Sized, B, R] fn(&A, B) -> R;
    [A: ?Sized, B: ?Sized, R] fn(&A, &B) -> R;
    [A, B, C, R] fn(A, B, C) -> R;
    [A: ?Sized, B: ?Sized, C: ?Sized, R] fn(&A, &B, &C) -> R;
    [R] Option<fn() -> R>;
    [A, R] Option<fn(A) -> R>;
    [A: ?Sized, R] Option<fn(&A) -> R>;
    [T] Cell<T>;
    [T: ?Sized] RefCell<T>;
    [T] Rc<Cell<T>>;
    [T: ?Sized] Rc<RefCell<T>>;
    [T] Arc<Cell<T>>;
    [T: ?Sized] Arc<RefCell<T>>;
    [T] &Cell<T>;
    [T: ?Sized] &RefCell<T>;
}

/// A static argument that is compared with a clone of it.
pub trait ByClone<'a>: Sized {
    /// Adds it.
    fn add_to_key(self, key: &mut CallKey<'a>);
    /// Whether a key can hold it.
    fn fits_in_key(self) -> Always {
        Always
    }
}

impl<'a, T: Eq + Clone + 'static> ByClone<'a> for &&&Static<'a, T> {
    fn add_to_key(self, key: &mut CallKey<'a>) {
        if !key.only_leaves {
            key.others.push(self.0);
        }
    }
}

/// What yields its elements in an order that equal values do not share: the order is in the key, too.
macro_rules! unordered {
    ($($name:ident<$($params:ident),*> by $item:ident)*) => {$(
        impl<'a, $($params),*, S> ByClone<'a> for &&&&Static<'a, $name<$($params),*, S>>
        where
            K: Hash,
            $name<$($params),*, S>: Eq + Clone + 'static,
        {
            fn add_to_key(self, key: &mut CallKey<'a>) {
                if !key.only_leaves {
                    key.others.push(self.0);
                    self.0.$item().for_each(|k| {
                        let mut hasher = DefaultHasher::new();
                        k.hash(&mut hasher);
                        key.word(hasher.finish());
                    });
                }
            }
        }
    )*};
}
unordered! { HashMap<K, V> by keys HashSet<K> by iter }

/// A static argument that cannot be kept or compared, and need not be if its type says all that there is to it: a function, a
/// closure that captures nothing.
pub trait BySize<T>: Sized {
    /// Adds it, or says that there is more.
    fn add_to_key(self, key: &mut CallKey<'_>);
    /// Whether a key can hold it.
    fn fits_in_key(self) -> WithoutBytes<T> {
        WithoutBytes(PhantomData)
    }
}

impl<T> BySize<T> for &&Static<'_, T> {
    fn add_to_key(self, key: &mut CallKey<'_>) {
        if !WithoutBytes::<T>::FITS && !key.only_leaves {
            key.unknown();
        }
    }
}

/// A static argument of which not even the size is known.
pub trait Unknown: Sized {
    /// Says so.
    fn add_to_key(self, key: &mut CallKey<'_>);
    /// Whether a key can hold it.
    fn fits_in_key(self) -> Never {
        Never
    }
}

impl<T: ?Sized> Unknown for &Static<'_, T> {
    fn add_to_key(self, key: &mut CallKey<'_>) {
        if !key.only_leaves {
            key.unknown();
        }
    }
}

macro_rules! integers {
    ($($ty:ident)*) => {$(
        impl Words for $ty {
            fn words(&self, key: &mut CallKey<'_>) {
                key.word(*self as u64);
            }
        }
    )*};
}
integers! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize bool char }

macro_rules! wide {
    ($($ty:ident)*) => {$(
        impl Words for $ty {
            fn words(&self, key: &mut CallKey<'_>) {
                key.word(*self as u64);
                key.word((*self >> 64) as u64);
            }
        }
    )*};
}
wide! { u128 i128 }

impl Words for f32 {
    fn words(&self, key: &mut CallKey<'_>) {
        key.word(self.to_bits().into());
    }
}

impl Words for f64 {
    fn words(&self, key: &mut CallKey<'_>) {
        key.word(self.to_bits());
    }
}

impl Words for DType {
    fn words(&self, key: &mut CallKey<'_>) {
        key.word(*self as u64);
    }
}

impl Words for str {
    fn words(&self, key: &mut CallKey<'_>) {
        self.as_bytes().words(key);
    }
}

impl Words for String {
    fn words(&self, key: &mut CallKey<'_>) {
        self.as_bytes().words(key);
    }
}

impl<T: Words> Words for [T] {
    fn words(&self, key: &mut CallKey<'_>) {
        key.word(self.len() as u64);
        self.iter().for_each(|x| x.words(key));
    }
}

impl<T: Words> Words for Vec<T> {
    fn words(&self, key: &mut CallKey<'_>) {
        self[..].words(key);
    }
}

impl<T: Words, const N: usize> Words for [T; N] {
    fn words(&self, key: &mut CallKey<'_>) {
        self.iter().for_each(|x| x.words(key));
    }
}

impl<T: Words> Words for Option<T> {
    fn words(&self, key: &mut CallKey<'_>) {
        key.word(self.is_some().into());
        self.iter().for_each(|x| x.words(key));
    }
}

impl<T: Words + ?Sized> Words for &T {
    fn words(&self, key: &mut CallKey<'_>) {
        (**self).words(key);
    }
}

impl<T: Words + ?Sized> Words for Box<T> {
    fn words(&self, key: &mut CallKey<'_>) {
        (**self).words(key);
    }
}

impl<T: Words> Words for Range<T> {
    fn words(&self, key: &mut CallKey<'_>) {
        self.start.words(key);
        self.end.words(key);
    }
}

impl<T: Words + PartialOrd> Words for RangeInclusive<T> {
    fn words(&self, key: &mut CallKey<'_>) {
        self.start().words(key);
        self.end().words(key);
        // One that has been walked through has ends, too.
        key.word(self.is_empty().into());
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: Words),*> Words for ($($name,)*) {
            #[allow(non_snake_case, unused_variables)]
            fn words(&self, key: &mut CallKey<'_>) {
                let ($($name,)*) = self;
                $($name.words(key);)*
            }
        }
    )*};
}
tuples! { () (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }
