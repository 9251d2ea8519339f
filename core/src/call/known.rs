//! Types whose methods, operators and iterators are known to do nothing but compute.
//!
//! The macro sees no types. Where it has to know one, as that of a field, it asks rustc: it emits a closure that never runs and
//! that returns an answer for each question, and a constant reads the answers off the type of the closure.

use super::facts::{Facts, Marker, NoFacts};
use crate::{Aval, DType, Key, Tensor};
use std::cmp;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::marker::PhantomData;
use std::ops::{Deref, Range, RangeFull, RangeInclusive};
use std::time::Duration;

/// A class of types that have their methods in common.
pub trait Class {
    /// The bit of the class in a mask.
    const BIT: u32;
}

macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident = $bit:expr;)*) => {$(
        $(#[$doc])*
        pub struct $name;
        impl Class for $name {
            const BIT: u32 = $bit;
        }
    )*};
}

// The macro has these bits, too: `macros/src/known.rs`.
classes! {
    /// A type of the user's that dereferences to another.
    Foreign = 0;
    /// A type of the user's that does not.
    Plain = 1;
    /// Numbers and other values without parts.
    OfScalar = 1 << 1;
    /// Strings.
    OfText = 1 << 2;
    /// Tensors.
    OfTensor = 1 << 3;
    /// Random keys.
    OfKey = 1 << 4;
    /// Ranges.
    OfRange = 1 << 5;
    /// Arrays, slices, vectors.
    OfList = 1 << 6;
    /// Maps and sets in the order of their keys.
    OfMap = 1 << 7;
    /// Options and results.
    OfOption = 1 << 8;
    /// Tuples.
    OfTuple = 1 << 9;
    /// Maps and sets whose order differs between equal ones.
    OfHash = 1 << 10;
}

/// A type of the standard library or of this one.
pub trait Kind {
    /// Its class.
    type Class: Class;
    /// What it holds several of.
    type Elem: ?Sized;
}

/// A type that is made of such types alone.
pub trait Known: Kind {}

macro_rules! kinds {
    ($($class:ident: $($ty:ty),* $(,)?;)*) => {$($(
        impl Kind for $ty {
            type Class = $class;
            type Elem = ();
        }
        impl Known for $ty {}
    )*)*};
}

kinds! {
    OfScalar: u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, bool, char;
    OfScalar: DType, Aval, cmp::Ordering, Duration, RangeFull;
    OfText: str, String;
    OfTensor: Tensor;
    OfKey: Key;
    OfTuple: ();
}

macro_rules! holders {
    ($($class:ident $elem:ty: [$($params:tt)*] $ty:ty where $($known:ty),*;)*) => {$(
        impl<$($params)*> Kind for $ty {
            type Class = $class;
            type Elem = $elem;
        }
        impl<$($params)*> Known for $ty where $($known: Known),* {}
    )*};
}

holders! {
    OfList T: [T] [T] where T;
    OfList T: [T, const N: usize] [T; N] where T;
    OfList T: [T] Vec<T> where T;
    OfList T: [T] VecDeque<T> where T;
    OfRange T: [T] Range<T> where T;
    OfRange T: [T] RangeInclusive<T> where T;
    OfHash V: [K, V] HashMap<K, V, RandomState> where K, V;
    OfHash K: [K] HashSet<K, RandomState> where K;
    OfMap V: [K, V] BTreeMap<K, V> where K, V;
    OfMap K: [K] BTreeSet<K> where K;
    OfOption T: [T] Option<T> where T;
    OfOption T: [T, E] Result<T, E> where T, E;
    OfTuple (): [A] (A,) where A;
    OfTuple (): [A, B] (A, B) where A, B;
    OfTuple (): [A, B, C] (A, B, C) where A, B, C;
    OfTuple (): [A, B, C, D] (A, B, C, D) where A, B, C, D;
    OfTuple (): [A, B, C, D, E] (A, B, C, D, E) where A, B, C, D, E;
    OfTuple (): [A, B, C, D, E, F] (A, B, C, D, E, F) where A, B, C, D, E, F;
}

macro_rules! pointers {
    ($($ty:ty)*) => {$(
        impl<T: Kind + ?Sized> Kind for $ty {
            type Class = T::Class;
            type Elem = T::Elem;
        }
        impl<T: Known + ?Sized> Known for $ty {}
    )*};
}
pointers! { &T Box<T> }

/// A value whose type is asked for. A method call finds the first trait that has the method for the type.
pub struct Probe<'a, T: ?Sized>(pub &'a T);

/// The answer that a value has a type of this class, to the question if that is in a mask.
pub struct Is<C, const MASK: u32>(PhantomData<C>);

/// The class of a type that is known.
pub trait ByKind: Sized {
    /// The class.
    type Class: Class;
    /// Answers the question for a class.
    fn class<const MASK: u32>(self) -> Is<Self::Class, MASK> {
        never()
    }
}

impl<T: Kind + ?Sized> ByKind for &&&&&Probe<'_, T> {
    type Class = T::Class;
}

macro_rules! foreign {
    ($($(#[$doc:meta])* $name:ident for [$($params:tt)*] $ty:ty: $class:ident;)*) => {$(
        $(#[$doc])*
        pub trait $name: Sized {
            /// Answers the question for a class.
            fn class<const MASK: u32>(self) -> Is<$class, MASK> {
                never()
            }
        }
        impl<$($params)*> $name for $ty {}
    )*};
}

foreign! {
    /// A reference to what dereferences.
    RefDeref for [T: Deref + ?Sized] &&&&Probe<'_, &T>: Foreign;
    /// Another reference.
    RefPlain for [T: ?Sized] &&&Probe<'_, &T>: Plain;
    /// What dereferences.
    OwnDeref for [T: Deref + ?Sized] &&Probe<'_, T>: Foreign;
    /// Any type.
    OwnPlain for [T: ?Sized] &Probe<'_, T>: Plain;
}

/// The class of a type that is known in all its parts.
pub trait AllKnown: Sized {
    /// The class.
    type Class: Class;
    /// Answers the question for a class.
    fn known<const MASK: u32>(self) -> Is<Self::Class, MASK> {
        never()
    }
}

impl<T: Known + ?Sized> AllKnown for &&Probe<'_, T> {
    type Class = T::Class;
}

/// A type with parts that are not.
pub trait NotAllKnown: Sized {
    /// Answers no.
    fn known<const MASK: u32>(self) -> Is<Foreign, MASK> {
        never()
    }
}

impl<T: ?Sized> NotAllKnown for &Probe<'_, T> {}

/// What a value holds several of.
pub trait Holds<'a> {
    /// The type of these.
    type Elem: ?Sized + 'a;
    /// One of these.
    fn elem(self) -> &'a Self::Elem;
}

impl<'a, T: Kind + ?Sized> Holds<'a> for &&Probe<'a, T>
where
    T::Elem: 'a,
{
    type Elem = T::Elem;
    fn elem(self) -> &'a T::Elem {
        never()
    }
}

/// A value that is not known to hold anything.
pub trait HoldsNothing: Sized {
    /// A value of no use.
    fn elem(self) -> Foreign {
        never()
    }
}

impl<T: ?Sized> HoldsNothing for &Probe<'_, T> {}

/// What a value yields that is an iterator, or becomes one.
pub trait Yields {
    /// The type of what it yields.
    type Item;
    /// One of these.
    fn item(self) -> Self::Item;
}

impl<T: IntoIterator> Yields for &&Probe<'_, T> {
    type Item = T::Item;
    fn item(self) -> T::Item {
        never()
    }
}

/// A value that yields nothing.
pub trait YieldsNothing: Sized {
    /// A value of no use.
    fn item(self) -> Foreign {
        never()
    }
}

impl<T: ?Sized> YieldsNothing for &Probe<'_, T> {}

/// The answer that a function is not traced, or not known to be.
pub type No = Is<Foreign, 1>;

/// A mark beside a function that is traced, or a transform: a value of the type that has its facts.
pub trait IsMarked: Sized {
    /// That type.
    type Facts: Facts;
    /// Answers yes.
    fn marked(self) -> Marker<Self::Facts> {
        never()
    }
}

impl<T: Facts> IsMarked for &&Probe<'_, T> {
    type Facts = T;
}

/// Any other value.
pub trait IsNotMarked: Sized {
    /// Answers no.
    fn marked(self) -> No {
        never()
    }
}

impl<T: ?Sized> IsNotMarked for &Probe<'_, T> {}

/// What names stand for where a function has no mark.
pub mod unmarked {
    /// The type beside such a function.
    pub enum __Traced {}
    /// The mark in it.
    pub const __TRACED: super::Foreign = super::Foreign;
}

/// An answer.
pub trait Answer {
    /// Whether it is yes.
    const YES: bool;
    /// The facts of the traced function that the question is about.
    type Facts: Facts;
}

impl<C: Class, const MASK: u32> Answer for Is<C, MASK> {
    const YES: bool = C::BIT & MASK != 0;
    type Facts = NoFacts;
}

impl<F: Facts> Answer for Marker<F> {
    const YES: bool = true;
    type Facts = F;
}

/// Yes, if one of two answers is.
pub struct Either<A, B>(PhantomData<(A, B)>);

impl<A: Answer, B: Answer> Answer for Either<A, B> {
    const YES: bool = A::YES || B::YES;
    type Facts = NoFacts;
}

/// Whether one of two answers is yes.
pub fn either<A: Answer, B: Answer>(_: A, _: B) -> Either<A, B> {
    never()
}

/// A list of answers, as nested pairs.
pub trait Answers {
    /// The number of answers before the first that is no.
    const N_YES: usize;
}

impl Answers for () {
    const N_YES: usize = 0;
}

impl<A: Answer, B: Answers> Answers for (A, B) {
    const N_YES: usize = match A::YES {
        true => 1 + B::N_YES,
        false => 0,
    };
}

/// The number of answers before the first that is no. The closure has the answers in its type, and never runs.
pub const fn n_yes<R: Answers, F: Fn() -> R>(_: &F) -> usize {
    R::N_YES
}

/// A value of a type, for a question.
pub fn some<T>() -> T {
    never()
}

/// What an iterator yields, for a question.
pub fn item<I: IntoIterator>(_: I) -> I::Item {
    never()
}

fn never() -> ! {
    unreachable!("questions to rustc do not run")
}
