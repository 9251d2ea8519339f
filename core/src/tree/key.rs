//! Keys of calls: everything about the arguments that a plan depends on.
//!
//! The elements of tensors are not part of a key.

use crate::function::{Function, ParamKind, Reason};
use crate::graph::call_node::no_args;
use crate::graph::recorded_numbers::{Number, NumberValue, NumberValues};
use crate::graph::value::{Shared, Value};
use crate::statics::NumberArg;
use crate::{Aval, DType, Tensor, Tree};
use gradloom_kernels::memory::scratch;
use smallvec::SmallVec;
use std::any::{Any, TypeId, type_name};
use std::cell::{Cell, RefCell};
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::mem::needs_drop;
use std::ops::{Deref, Range, RangeInclusive};
use std::rc::Rc;
use std::sync::Arc;

thread_local! {
    /// Recycled memory for the words of a key.
    static WORDS: Cell<Vec<u64>> = const { Cell::new(Vec::new()) };
}

/// Arguments of a call: the leaves, and words that encode the tree structure and static values.
///
/// All keys of one site are made by the same code for the same types. The words therefore carry no
/// type tags, only lengths where these vary.
pub struct CallKey<'a> {
    pub(crate) leaves: KeyLeaves<'a>,
    pub(crate) words: Vec<u64>,
    /// Number arguments that are only operands of arithmetic, as words.
    numbers: SmallVec<[u64; 2]>,
    /// These arguments, and results of arithmetic on them, as operands of tensors.
    pub(crate) values: NumberValues,
    /// Type that identifies the instance of a generic function.
    instance: Option<TypeId>,
    others: Vec<&'a dyn ComparableStatic>,
    /// First value or type that a key cannot hold. It was found in the parameter `param`.
    obstacle: Option<Obstacle>,
    /// Index of the parameter that is being described.
    param: usize,
    content: Content,
    /// Start of each parameter, if requested.
    marks: Option<Vec<Mark>>,
}

/// Selects what a key records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// Leaves, structure and static values of arguments.
    All,
    /// Only leaves, of a tree whose structure does not matter.
    KeyLeaves,
    /// Structure and skipped fields of a result. A skipped field may not share its contents.
    Structure,
}

/// Something that a key cannot hold. The call is recorded each time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Obstacle {
    /// An argument that cannot be computed.
    Fails,
    /// An argument that has a batch prefix: the ops of the body are recorded for each element.
    Prefixed,
    /// An argument that is traced by a transform.
    Traced,
    /// A static value whose type is not `Eq` and `Clone`.
    Static(&'static str),
    /// A tree whose type does not implement `Tree::__key`.
    Tree(&'static str),
    /// A map of trees by keys that are neither strings nor whole numbers.
    Names(&'static str),
    /// A skipped field of a result that may share its contents with other results.
    Shared(&'static str),
    /// The body is not known to be pure, or names a constant or static that a key cannot hold. Holds the reason,
    /// unless it depends on the instance of a generic function.
    Unfit(Option<&'static str>),
}

/// Lengths of the lists of a key at the start of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    param: usize,
    leaves: usize,
    words: usize,
    numbers: usize,
    others: usize,
}

/// Leaves of a key.
type KeyLeaves<'a> = SmallVec<[KeyLeaf<'a>; 16]>;

/// A leaf that lives as long as the key.
pub(crate) enum KeyLeaf<'a> {
    Borrowed(&'a Shared),
    Owned(Shared),
}

impl Deref for KeyLeaf<'_> {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        match self {
            KeyLeaf::Borrowed(value) => value,
            KeyLeaf::Owned(value) => value,
        }
    }
}

impl<'a> CallKey<'a> {
    pub(crate) fn new() -> CallKey<'a> {
        CallKey {
            leaves: KeyLeaves::new(),
            words: scratch::take(&WORDS),
            numbers: SmallVec::new(),
            values: NumberValues::new(),
            instance: None,
            others: Vec::new(),
            obstacle: None,
            param: 0,
            content: Content::All,
            marks: None,
        }
    }

    /// Creates a key that records where each parameter begins.
    pub(crate) fn with_marks() -> CallKey<'a> {
        let mut key = CallKey::new();
        key.marks = Some(Vec::new());
        key
    }

    /// Creates a key of the structure and the skipped fields of a result.
    pub(crate) fn of_result<T: Tree>(tree: &'a T) -> CallKey<'a> {
        let mut key = CallKey::new();
        key.content = Content::Structure;
        tree.__key(&mut key);
        key
    }

    /// Starts a parameter, given its index.
    #[inline]
    pub fn param(&mut self, param: usize) {
        // Stays at the first parameter that the key cannot hold, which messages name.
        if self.obstacle.is_none() {
            self.param = param;
        }
        if let Some(marks) = &mut self.marks {
            marks.push(Mark {
                param,
                leaves: self.leaves.len(),
                words: self.words.len(),
                numbers: self.numbers.len(),
                others: self.others.len(),
            });
        }
    }

    /// Sets the instance of a generic function: all instances share one site.
    ///
    /// The type of the argument is a function with the same types and constants. Lifetimes are
    /// ignored, because they cannot change the plan.
    pub fn instance<F>(&mut self, _: &F) {
        self.instance = Some(typeid::of::<F>());
    }

    /// Adds a leaf. A traced leaf is an obstacle: the call is then recorded.
    pub fn leaf(&mut self, x: &'a Tensor) {
        self.push(&x.0, KeyLeaf::Borrowed(&x.0));
    }

    /// Adds a leaf that the key has to own.
    pub(crate) fn leaf_of(&mut self, x: &Shared) {
        if self.obstacle.is_none() {
            self.push(x, KeyLeaf::Owned(x.clone()));
        }
    }

    /// Adds the words of a random key as a leaf. They are skipped if only the leaves or the
    /// structure of a tree are recorded.
    pub(crate) fn words_of_key(&mut self, words: &Tensor) {
        if self.content == Content::All {
            self.leaf_of(&words.0);
        }
    }

    fn push(&mut self, x: &Shared, leaf: KeyLeaf<'a>) {
        if self.obstacle.is_some() || self.content == Content::Structure {
            return;
        }
        match x.is_argument() {
            true => self.leaves.push(leaf),
            false if x.aval.batch_dims() > 0 => self.meet(Obstacle::Prefixed),
            false if x.is_in_scope() => self.meet(Obstacle::Traced),
            false => self.meet(Obstacle::Fails),
        }
    }

    /// Adds the leaves of a tree and ignores its structure.
    pub(crate) fn tree<T: Tree>(&mut self, tree: &'a T) {
        if self.obstacle.is_some() {
            return;
        }
        let before = self.leaves.len();
        self.content = Content::KeyLeaves;
        tree.__key(self);
        self.content = Content::All;
        // A tree without its own `__key` is visited leaf by leaf.
        if self.obstacle.take().is_some() {
            self.leaves.truncate(before);
            tree.visit(&mut |leaf| self.leaf_of(&leaf.0));
        }
        self.word((self.leaves.len() - before) as u64);
    }

    /// Clones the leaves, as the arguments of a pending call.
    pub(crate) fn args(&self) -> Vec<Shared> {
        let mut args = no_args();
        args.extend(self.leaves.iter().map(|leaf| Shared::clone(leaf)));
        args
    }

    /// Adds a word that encodes structure.
    pub fn word(&mut self, word: u64) {
        if self.content != Content::KeyLeaves {
            self.words.push(word);
        }
    }

    /// Adds a number argument that is only an operand of arithmetic.
    ///
    /// A plan need not depend on it: see [`CallSite`](crate::call::CallSite).
    pub fn number(&mut self, number: &impl Words) {
        let at = self.words.len();
        number.words(self);
        self.numbers.extend(self.words.drain(at..));
    }

    /// Adds an operand of a tensor that is computed from the number arguments in the set `params`, or `true` for
    /// another number that the body computes from them. It is `None` if the arithmetic overflows.
    pub fn value(&mut self, params: u64, value: Option<impl NumberArg>) {
        let number = value.and_then(|value| match value.into_number() {
            gradloom_ir::Static::Bool(_) => Some(Number::Unrecorded),
            number => Number::of(&number),
        });
        self.values.push(NumberValue { params, number });
    }

    /// Marks the key as incomplete for a reason, so that the call is recorded.
    pub fn unknown(&mut self, why: Option<&'static str>) {
        self.meet(Obstacle::Unfit(why));
    }

    /// Records that a tree type does not describe itself.
    pub(crate) fn unknown_tree<T: ?Sized>(&mut self) {
        self.meet(Obstacle::Tree(type_name::<T>()));
    }

    /// Adds the keys of a map of trees. They are an obstacle for arguments if their text does not
    /// identify them, and for results if two maps could share them.
    pub(crate) fn names<'k, K: Debug + 'k>(&mut self, keys: impl Iterator<Item = &'k K>) {
        let named = is_identified_by_text(typeid::of::<K>());
        match self.content {
            Content::KeyLeaves => {}
            Content::All if !named => self.meet(Obstacle::Names(type_name::<K>())),
            Content::Structure if !named && needs_drop::<K>() => {
                self.meet(Obstacle::Shared(type_name::<K>()));
            }
            Content::All | Content::Structure => {
                keys.for_each(|k| format!("{k:?}").words(self));
            }
        }
    }

    #[cold]
    fn meet(&mut self, obstacle: Obstacle) {
        self.obstacle.get_or_insert(obstacle);
    }

    /// Returns the first value or type that the key cannot hold, if any.
    pub(crate) fn obstacle(&self) -> Option<Obstacle> {
        self.obstacle
    }

    /// Explains an obstacle in terms of the user's function.
    pub(crate) fn why(&self, obstacle: Obstacle, function: &Function) -> Reason {
        let what = match function.params.get(self.param) {
            Some(param) => format!("`{}`", param.name),
            None => "an argument".to_owned(),
        };
        let why = match obstacle {
            Obstacle::Fails => return "an argument cannot be computed".into(),
            Obstacle::Prefixed => return "an argument has a batch prefix".into(),
            Obstacle::Traced => return "an argument is traced by a transform".into(),
            Obstacle::Static(ty) => {
                format!(
                    "{what} holds a `{ty}`, which cannot be part of a cache key: it does not implement `Eq` and `Clone`, or is a function pointer or a cell"
                )
            }
            Obstacle::Tree(ty) => {
                format!("{what} holds a `{ty}`, whose `Tree` is not derived")
            }
            Obstacle::Names(ty) => {
                format!(
                    "{what} holds a map by `{ty}`: only maps by strings and whole numbers can be part of a cache key"
                )
            }
            Obstacle::Shared(ty) => shared(ty),
            Obstacle::Unfit(Some(why)) => return why.into(),
            Obstacle::Unfit(None) => {
                return "the body, for these types, may have side effects, or uses a constant or static that may be mutable or hold a tensor"
                    .into();
            }
        };
        why.into()
    }

    /// Copies the key without borrows. The copy lists which leaves are the same value, because a
    /// plan for equal arguments may be wrong for distinct ones.
    pub(crate) fn own(&self) -> OwnedKey {
        let mut aliases = Vec::new();
        let mut first_of = HashMap::new();
        for (i, leaf) in self.leaves.iter().enumerate() {
            let first = *first_of
                .entry(std::ptr::from_ref::<Value>(leaf))
                .or_insert(i);
            if first < i {
                aliases.push((first as u32, i as u32));
            }
        }
        OwnedKey {
            avals: self.leaves.iter().map(|x| x.aval.clone()).collect(),
            aliases: aliases.into(),
            words: self.words[..].into(),
            numbers: self.numbers[..].into(),
            any_number: 0,
            instance: self.instance,
            others: self.others.iter().map(|x| x.own()).collect(),
            marks: self.marks.as_deref().unwrap_or_default().into(),
        }
    }

    /// Returns whether the same leaves are equal as in `other`.
    pub(crate) fn has_aliases_of(&self, other: &OwnedKey) -> bool {
        self.own().aliases == other.aliases
    }
}

/// Returns whether two values of a type are equal if they print the same with `{:?}`.
fn is_identified_by_text(ty: TypeId) -> bool {
    macro_rules! is_one_of {
        ($($ty:ty),*) => { $(ty == TypeId::of::<$ty>())||* };
    }
    is_one_of!(
        String,
        &'static str,
        char,
        bool,
        u8,
        u16,
        u32,
        u64,
        u128,
        usize,
        i8,
        i16,
        i32,
        i64,
        i128,
        isize
    )
}

/// Returns why a result with a skipped field of type `ty` is recorded each time.
pub(crate) fn shared(ty: &str) -> String {
    format!(
        "a skipped field of the result holds a `{ty}`, which all results of the call would share: only numbers, strings, lists of these and types that need no drop can be cached"
    )
}

impl Drop for CallKey<'_> {
    fn drop(&mut self) {
        self.words.clear();
        scratch::restore(&WORDS, std::mem::take(&mut self.words));
    }
}

/// A key stored in a site.
pub(crate) struct OwnedKey {
    avals: Box<[Aval]>,
    /// Pairs of leaves that are the same value.
    aliases: Box<[(u32, u32)]>,
    words: Box<[u64]>,
    numbers: Box<[u64]>,
    /// Set of the numbers that the plan does not depend on.
    any_number: u64,
    instance: Option<TypeId>,
    others: Box<[Box<dyn OwnedStatic>]>,
    marks: Box<[Mark]>,
}

/// Everything about a tree that a program for it depends on: its structure, the dtypes and shapes of its leaves, and its
/// skipped fields. The elements do not count.
///
/// It is the key of a map from arguments to programs that were traced for them.
///
/// ```
/// use gradloom::Tensor;
/// use gradloom::tree::TreeKey;
///
/// let key = |x: &[f32]| TreeKey::new(&Tensor::from(x.to_vec()));
/// assert!(key(&[1.0, 2.0]) == key(&[3.0, 4.0]));
/// assert!(key(&[1.0, 2.0]) != key(&[1.0]));
/// ```
pub struct TreeKey(OwnedKey);

impl TreeKey {
    /// Returns the key of a tree.
    ///
    /// Returns `None` if there is none: a skipped field has no `Eq`, the `Tree` is not derived, or a leaf is traced by a
    /// transform or has a batch prefix.
    pub fn new(tree: &impl Tree) -> Option<TreeKey> {
        let mut key = CallKey::new();
        tree.__key(&mut key);
        key.obstacle().is_none().then(|| TreeKey(key.own()))
    }
}

impl PartialEq for TreeKey {
    fn eq(&self, other: &TreeKey) -> bool {
        self.0.covers(&other.0)
    }
}

/// Difference between two keys in one parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Difference {
    /// The shape or dtype of a leaf differs.
    Aval(usize, Aval, Aval),
    /// The structure or a static value differs.
    Static(usize),
}

impl OwnedKey {
    /// Returns the first difference in each parameter. Returns `None` if the number of parameters
    /// differs.
    pub(crate) fn differences(&self, later: &OwnedKey) -> Option<Vec<Difference>> {
        let params = |key: &OwnedKey| -> Vec<usize> { key.marks.iter().map(|m| m.param).collect() };
        if params(self) != params(later) {
            return None;
        }
        let difference = |i: usize| {
            let param = self.marks[i].param;
            let (old, new) = (self.part(i), later.part(i));
            let (old_avals, new_avals) = (&self.avals[old.0], &later.avals[new.0]);
            if old_avals.len() != new_avals.len() || self.words[old.1] != later.words[new.1] {
                return Some(Difference::Static(param));
            }
            let avals = old_avals.iter().zip(new_avals).find(|(a, b)| a != b);
            if let Some((a, b)) = avals {
                return Some(Difference::Aval(param, a.clone(), b.clone()));
            }
            let any = |i: usize| self.any_number & number_bit(i) != 0;
            let mut numbers = old.3.zip(new.3);
            if numbers.any(|(i, j)| !any(i) && self.numbers[i] != later.numbers[j]) {
                return Some(Difference::Static(param));
            }
            let same = is_same_list(&self.others[old.2], &later.others[new.2]);
            (!same).then_some(Difference::Static(param))
        };
        Some((0..self.marks.len()).filter_map(difference).collect())
    }

    /// Returns the ranges of leaves, words, other values and numbers that belong to parameter `i`.
    fn part(&self, i: usize) -> (Range<usize>, Range<usize>, Range<usize>, Range<usize>) {
        let (from, to) = (self.marks[i], self.marks.get(i + 1));
        let end = |of: fn(&Mark) -> usize, all: usize| of(&from)..to.map_or(all, of);
        (
            end(|m| m.leaves, self.avals.len()),
            end(|m| m.words, self.words.len()),
            end(|m| m.others, self.others.len()),
            end(|m| m.numbers, self.numbers.len()),
        )
    }

    /// Returns whether two keys of results are equal.
    pub(crate) fn equals(&self, other: &OwnedKey) -> bool {
        self.words == other.words && is_same_list(&self.others, &other.others)
    }

    /// Lets plans for this key run calls with any value of the numbers in the set `numbers`.
    pub(crate) fn allow_any(&mut self, numbers: u64) {
        self.any_number = numbers;
    }

    /// Returns whether plans for this key run calls with any value of some number.
    pub(crate) fn allows_any(&self) -> bool {
        self.any_number != 0
    }

    /// Returns whether a plan for this key runs all calls with the key `other`.
    pub(crate) fn covers(&self, other: &OwnedKey) -> bool {
        let mut numbers = self.numbers.iter().zip(&other.numbers).enumerate();
        let any = self.any_number;
        self.equals(other)
            && self.instance == other.instance
            && self.avals == other.avals
            && self.aliases == other.aliases
            && other.any_number & !any == 0
            && numbers.all(|(i, (a, b))| any & number_bit(i) != 0 || a == b)
    }

    /// Returns the set of the numbers that are different in `key`.
    ///
    /// Returns `None` if it is empty, or if the keys differ in anything else.
    pub(crate) fn changed_numbers(&self, key: &CallKey<'_>) -> Option<u64> {
        if !self.fits_but_numbers(key) {
            return None;
        }
        let numbers = self.numbers.iter().zip(&key.numbers).enumerate();
        let differ = numbers.filter(|(_, (a, b))| a != b);
        let bits: SmallVec<[u64; 2]> = differ.map(|(i, _)| number_bit(i)).collect();
        let is_set = !bits.is_empty() && !bits.contains(&0);
        is_set.then(|| bits.iter().fold(0, |set, bit| set | bit))
    }

    /// Returns whether both keys are of the same instance of a function.
    pub(crate) fn is_of_instance_of(&self, other: &OwnedKey) -> bool {
        self.instance == other.instance
    }

    /// Returns whether a plan for this key can run a call with `key`.
    ///
    /// Leaves that are one value in this key have to be one value in `key`; the converse is not
    /// required.
    pub(crate) fn fits(&self, key: &CallKey<'_>) -> bool {
        let mut numbers = self.numbers.iter().zip(&key.numbers).enumerate();
        numbers.all(|(i, (a, b))| a == b || self.any_number & number_bit(i) != 0)
            && self.fits_but_numbers(key)
    }

    fn fits_but_numbers(&self, key: &CallKey<'_>) -> bool {
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
                .all(|(a, b)| b.same(a.value()))
    }
}

/// Returns the set of the number at index `i`, which is empty if the index is too large.
fn number_bit(i: usize) -> u64 {
    1u64.checked_shl(i as u32).unwrap_or(0)
}

fn is_same_list(a: &[Box<dyn OwnedStatic>], b: &[Box<dyn OwnedStatic>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| b.equals(&**a))
}

/// A static value that a key compares with a clone of an earlier one.
pub trait ComparableStatic {
    /// Returns whether `other` has the same type and is equal.
    fn same(&self, other: &dyn Any) -> bool;
    /// Clones the value.
    fn own(&self) -> Box<dyn OwnedStatic>;
}

impl<T: Eq + Clone + 'static> ComparableStatic for T {
    fn same(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>().is_some_and(|other| self == other)
    }
    fn own(&self) -> Box<dyn OwnedStatic> {
        Box::new(Clone::clone(self))
    }
}

/// A static value that a stored key owns.
pub trait OwnedStatic {
    /// Returns the value.
    fn value(&self) -> &dyn Any;
    /// Returns whether both values have the same type and are equal.
    fn equals(&self, other: &dyn OwnedStatic) -> bool;
}

impl<T: Eq + Clone + 'static> OwnedStatic for T {
    fn value(&self) -> &dyn Any {
        self
    }
    fn equals(&self, other: &dyn OwnedStatic) -> bool {
        self.same(other.value())
    }
}

/// A static argument that is being added to a key.
///
/// Method resolution selects the treatment by type: the first of [`MutableStatic`], [`ByWords`],
/// [`ByClone`], [`BySize`] and [`UnknownStatic`] that is implemented.
pub struct Static<'a, T: ?Sized>(pub &'a T);

/// Tells whether a key can hold the values of a type.
pub trait Fit {
    /// True if a key can hold the values themselves.
    const BY_VALUE: bool;
    /// True if a key can hold the values, or does not need to because there is only one.
    const FITS: bool = Self::BY_VALUE;
}

/// A key can hold the values of the type.
pub struct FitsAlways;

impl Fit for FitsAlways {
    const BY_VALUE: bool = true;
}

/// A key cannot hold the values, which is no problem if the type has size 0.
pub struct FitsIfEmpty<T>(PhantomData<T>);

impl<T> Fit for FitsIfEmpty<T> {
    const BY_VALUE: bool = false;
    const FITS: bool = size_of::<T>() == 0;
}

/// A key cannot hold the values of the type.
pub struct FitsNever;

impl Fit for FitsNever {
    const BY_VALUE: bool = false;
}

/// A site can cache the value if its type needs no drop: it has no handle to share.
pub struct WithoutDrop<T>(PhantomData<T>);

impl<T> Fit for WithoutDrop<T> {
    const BY_VALUE: bool = !needs_drop::<T>();
}

/// Returns whether a site may cache a skipped field of a result. Only the return type of the
/// closure is used: it never runs.
pub const fn kept_by_site<T, R: Fit, F: Fn(T) -> R>(_: &F) -> bool {
    R::FITS
}

/// A skipped field of a result that is encoded as words, and owns its contents.
pub trait OwnedWords: Sized {
    /// Tells that a site may cache the field.
    fn kept_by_site(self) -> FitsAlways {
        FitsAlways
    }
}

impl<T: Words + ?Sized> OwnedWords for &&Static<'_, T> {}

/// Any other skipped field of a result.
pub trait OwnedBytes<T>: Sized {
    /// Tells that a site may cache the field if its type needs no drop.
    fn kept_by_site(self) -> WithoutDrop<T> {
        WithoutDrop(PhantomData)
    }
}

impl<T> OwnedBytes<T> for &Static<'_, T> {}

/// Returns whether a key can hold a constant or a static. Only the return type of the closure is
/// used: it never runs.
///
/// The size does not matter: a type of size 0 may stand for data elsewhere, such as a tensor that
/// is made lazily.
pub const fn global_fits<R: Fit, F: Fn() -> R>(_: &F) -> bool {
    R::BY_VALUE
}

/// Returns whether a key can hold a static argument. Only the return type of the closure is used:
/// it never runs.
pub const fn argument_fits<T, R: Fit, F: Fn(T) -> R>(_: &F) -> bool {
    R::FITS
}

/// Returns the first reason in a list.
pub const fn first_reason(reasons: &[Option<&'static str>]) -> Option<&'static str> {
    match reasons {
        [] => None,
        [None, rest @ ..] => first_reason(rest),
        [why, ..] => *why,
    }
}

/// A value that can be encoded as words. Different values have different words; floats are compared
/// by bits.
pub trait Words {
    /// Appends the words to `key`.
    fn words(&self, key: &mut CallKey<'_>);
}

/// A tree, added by its leaves and structure.
pub trait ByTree<'a> {
    /// Adds the tree to `key`.
    fn add_tree_to_key(self, key: &mut CallKey<'a>);
}

impl<'a, T: Tree> ByTree<'a> for &&Static<'a, T> {
    fn add_tree_to_key(self, key: &mut CallKey<'a>) {
        self.0.__key(key);
    }
}

/// A type that is not a tree: the receiver of a method of a trait. In other places it is an error at
/// the function's signature.
pub trait MissingTree {
    /// Marks the key as incomplete, unless the type has size 0.
    fn add_tree_to_key(self, key: &mut CallKey<'_>);
}

impl<T: ?Sized> MissingTree for &Static<'_, T> {
    fn add_tree_to_key(self, key: &mut CallKey<'_>) {
        // The values of a trait object without bytes may have several types.
        let is_sized = size_of::<&T>() == size_of::<usize>();
        if !is_sized || size_of_val(self.0) > 0 {
            key.unknown_tree::<T>();
        }
    }
}

/// A static argument that is encoded as words.
pub trait ByWords: Sized {
    /// Adds the argument to `key`.
    fn add_to_key(self, key: &mut CallKey<'_>);
    /// Tells that a key can hold the argument.
    fn fits_in_key(self) -> FitsAlways {
        FitsAlways
    }
}

impl<T: Words + ?Sized> ByWords for &&&&Static<'_, T> {
    fn add_to_key(self, key: &mut CallKey<'_>) {
        self.0.words(key);
    }
}

/// A static argument that equals its clone regardless of its behaviour: a function pointer, or a
/// cell that clones share.
pub trait MutableStatic: Sized {
    /// Adds an obstacle to `key`.
    fn add_to_key(self, key: &mut CallKey<'_>);
    /// Tells that a key cannot hold the argument.
    fn fits_in_key(self) -> FitsNever {
        FitsNever
    }
}

macro_rules! mutable {
    ($([$($params:tt)*] $ty:ty;)*) => {$(
        // `fn(&A) -> R` is a type of its own, not an instance of `fn(A) -> R`.
        #[allow(coherence_leak_check)]
        impl<$($params)*> MutableStatic for &&&&&Static<'_, $ty> {
            fn add_to_key(self, key: &mut CallKey<'_>) {
                match key.content {
                    // A skipped field of a result may have any type that needs no drop.
                    Content::Structure if !needs_drop::<$ty>() => {}
                    _ => UnknownStatic::add_to_key(&Static(self.0), key),
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

/// A static argument that is compared with a clone of an earlier one.
pub trait ByClone<'a>: Sized {
    /// Adds the argument to `key`.
    fn add_to_key(self, key: &mut CallKey<'a>);
    /// Tells that a key can hold the argument.
    fn fits_in_key(self) -> FitsAlways {
        FitsAlways
    }
}

impl<'a, T: Eq + Clone + 'static> ByClone<'a> for &&&Static<'a, T> {
    fn add_to_key(self, key: &mut CallKey<'a>) {
        match key.content {
            Content::KeyLeaves => {}
            Content::Structure if needs_drop::<T>() => key.meet(Obstacle::Shared(type_name::<T>())),
            Content::All | Content::Structure => key.others.push(self.0),
        }
    }
}

/// Collections whose iteration order may differ between equal values. The key includes the order.
macro_rules! unordered {
    ($($name:ident<$($params:ident),*> by $item:ident)*) => {$(
        impl<'a, $($params),*, S> ByClone<'a> for &&&&Static<'a, $name<$($params),*, S>>
        where
            K: Hash,
            $name<$($params),*, S>: Eq + Clone + 'static,
        {
            fn add_to_key(self, key: &mut CallKey<'a>) {
                match key.content {
                    Content::KeyLeaves => {}
                    Content::Structure => key.meet(Obstacle::Shared(type_name::<$name<$($params),*, S>>())),
                    Content::All => {
                        key.others.push(self.0);
                        self.0.$item().for_each(|k| {
                            let mut hasher = DefaultHasher::new();
                            k.hash(&mut hasher);
                            key.word(hasher.finish());
                        });
                    }
                }
            }
        }
    )*};
}
unordered! { HashMap<K, V> by keys HashSet<K> by iter }

/// A static argument that can be neither cloned nor compared, such as a function or a closure.
///
/// A key does not need the value if its type has size 0.
pub trait BySize<T>: Sized {
    /// Adds an obstacle to `key` unless the type has size 0.
    fn add_to_key(self, key: &mut CallKey<'_>);
    /// Tells that a key can hold the argument if its type has size 0.
    fn fits_in_key(self) -> FitsIfEmpty<T> {
        FitsIfEmpty(PhantomData)
    }
}

impl<T> BySize<T> for &&Static<'_, T> {
    fn add_to_key(self, key: &mut CallKey<'_>) {
        match key.content {
            Content::KeyLeaves => {}
            Content::All if !FitsIfEmpty::<T>::FITS => {
                key.meet(Obstacle::Static(type_name::<T>()));
            }
            Content::Structure if needs_drop::<T>() => key.meet(Obstacle::Shared(type_name::<T>())),
            Content::All | Content::Structure => {}
        }
    }
}

/// A static argument of unknown size.
pub trait UnknownStatic: Sized {
    /// Adds an obstacle to `key`.
    fn add_to_key(self, key: &mut CallKey<'_>);
    /// Tells that a key cannot hold the argument.
    fn fits_in_key(self) -> FitsNever {
        FitsNever
    }
}

impl<T: ?Sized> UnknownStatic for &Static<'_, T> {
    fn add_to_key(self, key: &mut CallKey<'_>) {
        match key.content {
            Content::KeyLeaves => {}
            Content::All => key.meet(Obstacle::Static(type_name::<T>())),
            Content::Structure => key.meet(Obstacle::Shared(type_name::<T>())),
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
        // An exhausted range still has its bounds.
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

/// Describes the differences of two keys with the names of the user's parameters.
pub(crate) fn in_words(differences: &[Difference], function: &Function) -> String {
    let name = |param: &usize| match function.params.get(*param) {
        Some(param) => format!("`{}`", param.name),
        None => "a tangent".to_owned(),
    };
    let text = |difference: &Difference| match difference {
        Difference::Aval(param, old, new) => format!("{}: {old} -> {new}", name(param)),
        Difference::Static(param) => match function.params.get(*param).map(|p| p.kind) {
            Some(ParamKind::Number | ParamKind::Fixed) => {
                format!("a different value of {}", name(param))
            }
            _ => format!("a different structure or skipped value of {}", name(param)),
        },
    };
    match differences {
        [] => "two arguments are the same tensor, and were distinct tensors before, or the reverse"
            .to_owned(),
        some => some.iter().take(3).map(text).collect::<Vec<_>>().join("; "),
    }
}
