//! Types whose methods, operators and iterators are known to be pure.
//!
//! The macro does not see types. If it needs the type of an expression, such as a field, it emits a
//! closure that never runs and that returns one answer type for each question. A constant then
//! reads the answers from the type of the closure.

use super::facts::{Facts, Marker, NoFacts};
use crate::{
    AssociativeScan, Aval, AxisIndex, Checkpoint, CustomFunction, DType, JacobianRows,
    JacobianTree, Key, NewAxis, Outcome, Rest, Scan, Tensor, Tree, Vmap,
};
use std::borrow::Cow;
use std::cell::{Ref, RefMut};
use std::cmp;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::iter::Peekable;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range, RangeFull, RangeInclusive};
use std::rc::Rc;
use std::sync::{Arc, MutexGuard, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// A class of types with the same methods.
pub trait Class {
    /// Bit of the class in a mask.
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

// `macros/src/method_table.rs` has the same bits.
classes! {
    /// A user-defined type that implements `Deref`.
    Foreign = 0;
    /// A user-defined type that does not implement `Deref`.
    Plain = 1;
    /// Signed integers.
    OfSigned = 1 << 1;
    /// Unsigned integers.
    OfUnsigned = 1 << 2;
    /// `u8`.
    OfByte = 1 << 3;
    /// Floating-point numbers.
    OfFloat = 1 << 4;
    /// `bool`.
    OfBool = 1 << 5;
    /// `char`.
    OfChar = 1 << 6;
    /// Results of comparisons.
    OfOrdering = 1 << 7;
    /// Durations.
    OfDuration = 1 << 8;
    /// Dtypes.
    OfDType = 1 << 9;
    /// Avals, `..` and other entries of an index.
    OfOther = 1 << 10;
    /// `str`.
    OfStr = 1 << 11;
    /// `String`.
    OfString = 1 << 12;
    /// Tensors.
    OfTensor = 1 << 13;
    /// Random keys.
    OfKey = 1 << 14;
    /// Half-open ranges.
    OfHalfOpen = 1 << 15;
    /// Inclusive ranges.
    OfInclusive = 1 << 16;
    /// Arrays.
    OfArray = 1 << 17;
    /// Slices.
    OfSlice = 1 << 18;
    /// Vectors.
    OfVec = 1 << 19;
    /// Double-ended queues.
    OfDeque = 1 << 20;
    /// Maps that are ordered by their keys.
    OfTreeMap = 1 << 21;
    /// Sets that are ordered.
    OfTreeSet = 1 << 22;
    /// Maps whose order may differ between equal ones.
    OfHashMap = 1 << 23;
    /// Sets whose order may differ between equal ones.
    OfHashSet = 1 << 24;
    /// Options.
    OfOption = 1 << 25;
    /// Results.
    OfResult = 1 << 26;
    /// Tuples.
    OfTuple = 1 << 27;
    /// Iterators that can be peeked at.
    OfPeekable = 1 << 28;
    /// Optimisers of this crate, types that hold the function of a transform, and Jacobians.
    OfOptimiser = 1 << 30;
    /// Shared pointers, and those that borrow or own.
    OfShared = 1 << 31;
}

/// A type of the standard library or of this crate.
pub trait KnownType {
    /// Class of the type.
    type Class: Class;
    /// Type of the elements, or `()`.
    type Elem: ?Sized;
}

/// A [`KnownType`] whose elements and other parts are all known, too.
pub trait FullyKnownType: KnownType {}

/// A [`KnownType`] that compares nothing by code of the user's to find an element.
pub trait KeyedType: KnownType {}

macro_rules! kinds {
    ($($class:ident: $($ty:ty),* $(,)?;)*) => {$($(
        impl KnownType for $ty {
            type Class = $class;
            type Elem = ();
        }
        impl FullyKnownType for $ty {}
        impl KeyedType for $ty {}
    )*)*};
}

kinds! {
    OfSigned: i8, i16, i32, i64, i128, isize;
    OfUnsigned: u16, u32, u64, u128, usize;
    OfByte: u8;
    OfFloat: f32, f64;
    OfBool: bool;
    OfChar: char;
    OfOrdering: cmp::Ordering;
    OfDuration: Duration;
    OfDType: DType;
    OfOther: Aval, RangeFull, AxisIndex, NewAxis, Rest;
    OfStr: str;
    OfString: String;
    OfTensor: Tensor;
    OfKey: Key;
    OfTuple: ();
}

macro_rules! holders {
    ($($class:ident $elem:ty: [$($params:tt)*] $ty:ty where $($known:ty),* $(=> $key:ty)?;)*) => {$(
        impl<$($params)*> KnownType for $ty {
            type Class = $class;
            type Elem = $elem;
        }
        impl<$($params)*> FullyKnownType for $ty where $($known: FullyKnownType),* {}
        impl<$($params)*> KeyedType for $ty where $($key: FullyKnownType)? {}
    )*};
}

holders! {
    OfSlice T: [T] [T] where T;
    OfArray T: [T, const N: usize] [T; N] where T;
    OfVec T: [T] Vec<T> where T;
    OfDeque T: [T] VecDeque<T> where T;
    OfHalfOpen T: [T] Range<T> where T;
    OfInclusive T: [T] RangeInclusive<T> where T;
    OfHashMap V: [K, V] HashMap<K, V, RandomState> where K, V => K;
    OfHashSet K: [K] HashSet<K, RandomState> where K => K;
    OfTreeMap V: [K, V] BTreeMap<K, V> where K, V => K;
    OfTreeSet K: [K] BTreeSet<K> where K => K;
    OfOption T: [T] Option<T> where T;
    OfResult T: [T, E] Result<T, E> where T, E;
    OfOptimiser (): [F] AssociativeScan<F> where F;
    OfOptimiser (): [F] Checkpoint<F> where F;
    OfOptimiser (): [F] Scan<F> where F;
    OfOptimiser (): [F] Vmap<F> where F;
    OfOptimiser (): [Y, X] JacobianRows<Y, X> where Y, X;
    OfTuple (): [A] (A,) where A;
    OfTuple (): [A, B] (A, B) where A, B;
    OfTuple (): [A, B, C] (A, B, C) where A, B, C;
    OfTuple (): [A, B, C, D] (A, B, C, D) where A, B, C, D;
    OfTuple (): [A, B, C, D, E] (A, B, C, D, E) where A, B, C, D, E;
    OfTuple (): [A, B, C, D, E, F] (A, B, C, D, E, F) where A, B, C, D, E, F;
}

impl<I: Iterator> KnownType for Peekable<I> {
    type Class = OfPeekable;
    type Elem = I::Item;
}

macro_rules! pointers {
    ($($ty:ty)*) => {$(
        impl<T: KnownType + ?Sized> KnownType for $ty {
            type Class = T::Class;
            type Elem = T::Elem;
        }
        impl<T: FullyKnownType + ?Sized> FullyKnownType for $ty {}
        impl<T: KeyedType + ?Sized> KeyedType for $ty {}
    )*};
}
pointers! { &T &mut T Box<T> }

// A trait of the user's may give these pointers methods with the names of those of `T`, so their
// class is their own. `T` is known because a reference to a pointer may be dereferenced further.
macro_rules! shared {
    ($([$($bound:tt)*] $ty:ty;)*) => {$(
        impl<T: KnownType + $($bound)* ?Sized> KnownType for $ty {
            type Class = OfShared;
            type Elem = T;
        }
        impl<T: FullyKnownType + $($bound)* ?Sized> FullyKnownType for $ty {}
        impl<T: KnownType + $($bound)* ?Sized> KeyedType for $ty {}
    )*};
}
shared! {
    [] Rc<T>;
    [] Arc<T>;
    [ToOwned +] Cow<'_, T>;
}

/// A value whose type rustc determines for the macro.
///
/// Method resolution selects the first trait below that applies to the type.
pub struct Probe<'a, T: ?Sized>(pub &'a T);

/// Answers whether a type is of a class in `MASK`.
pub struct ClassAnswer<C, const MASK: u32>(PhantomData<C>);

impl<C, const MASK: u32> ClassAnswer<C, MASK> {
    pub(super) const fn new() -> ClassAnswer<C, MASK> {
        ClassAnswer(PhantomData)
    }
}

/// Class of a type that implements `KnownType`.
pub trait KnownClass: Sized {
    /// Class of the type.
    type Class: Class;
    /// Answers whether the class is in `MASK`.
    fn class<const MASK: u32>(self) -> ClassAnswer<Self::Class, MASK> {
        never()
    }
}

impl<T: KnownType + ?Sized> KnownClass for &&&&&Probe<'_, T> {
    type Class = T::Class;
}

macro_rules! foreign {
    ($($(#[$doc:meta])* $name:ident for [$($params:tt)*] $ty:ty: $class:ident;)*) => {$(
        $(#[$doc])*
        pub trait $name: Sized {
            /// Answers whether the class is in `MASK`.
            fn class<const MASK: u32>(self) -> ClassAnswer<$class, MASK> {
                never()
            }
        }
        impl<$($params)*> $name for $ty {}
    )*};
}

foreign! {
    /// A reference to a user-defined type that implements `Deref`.
    RefDeref for [T: Deref + ?Sized] &&&&Probe<'_, &T>: Foreign;
    /// A reference to another user-defined type.
    RefPlain for [T: ?Sized] &&&Probe<'_, &T>: Plain;
    /// A user-defined type that implements `Deref`.
    OwnDeref for [T: Deref + ?Sized] &&Probe<'_, T>: Foreign;
    /// Any other type.
    OwnPlain for [T: ?Sized] &Probe<'_, T>: Plain;
}

/// A reference to a type of the standard library or of this crate.
pub trait KnownReference: Sized {
    /// Answers that passing it on runs no `Deref` of the user's.
    fn moved<const MASK: u32>(self) -> ClassAnswer<Plain, MASK> {
        never()
    }
}

impl<T: KnownType + ?Sized> KnownReference for &&&&Probe<'_, &T> {}

/// A reference to a user-defined type that implements `Deref`.
pub trait ForeignReference: Sized {
    /// Answers that passing it on may run that `Deref`.
    fn moved<const MASK: u32>(self) -> ClassAnswer<Foreign, MASK> {
        never()
    }
}

impl<T: Deref + ?Sized> ForeignReference for &&&Probe<'_, &T> {}

/// A mutable reference to a type that implements `Deref`.
pub trait ForeignMutable: Sized {
    /// Answers that passing it on may run that `Deref`.
    fn moved<const MASK: u32>(self) -> ClassAnswer<Foreign, MASK> {
        never()
    }
}

impl<T: Deref + ?Sized> ForeignMutable for &&Probe<'_, &mut T> {}

/// Any other value.
pub trait MovedValue: Sized {
    /// Answers that passing it on runs no code.
    fn moved<const MASK: u32>(self) -> ClassAnswer<Plain, MASK> {
        never()
    }
}

impl<T: ?Sized> MovedValue for &Probe<'_, T> {}

/// Class of a type that implements `FullyKnownType`.
pub trait FullyKnownClass: Sized {
    /// Class of the type.
    type Class: Class;
    /// Answers whether the class is in `MASK`.
    fn known<const MASK: u32>(self) -> ClassAnswer<Self::Class, MASK> {
        never()
    }
}

impl<T: FullyKnownType + ?Sized> FullyKnownClass for &&Probe<'_, T> {
    type Class = T::Class;
}

/// A type with parts that do not implement `FullyKnownType`.
pub trait PartlyKnownClass: Sized {
    /// Answers no.
    fn known<const MASK: u32>(self) -> ClassAnswer<Foreign, MASK> {
        never()
    }
}

impl<T: ?Sized> PartlyKnownClass for &Probe<'_, T> {}

/// Class of a type that implements `KeyedType`.
pub trait KeyedClass: Sized {
    /// Class of the type.
    type Class: Class;
    /// Answers whether the class is in `MASK`.
    fn keys<const MASK: u32>(self) -> ClassAnswer<Self::Class, MASK> {
        never()
    }
}

impl<T: KeyedType + ?Sized> KeyedClass for &&Probe<'_, T> {
    type Class = T::Class;
}

/// A type that does not implement `KeyedType`.
pub trait UnkeyedClass: Sized {
    /// Answers no.
    fn keys<const MASK: u32>(self) -> ClassAnswer<Foreign, MASK> {
        never()
    }
}

impl<T: ?Sized> UnkeyedClass for &Probe<'_, T> {}

/// Answers whether a custom function is pure.
pub struct CustomAnswer<F>(PhantomData<F>);

macro_rules! customs {
    ($($(#[$doc:meta])* $name:ident for $ty:ty;)*) => {$(
        $(#[$doc])*
        pub trait $name<F>: Sized {
            /// Answers whether the custom function is pure.
            fn custom(self) -> CustomAnswer<F> {
                never()
            }
        }
        impl<F: CustomFunction> $name<F> for $ty {}
    )*};
}
customs! {
    /// A reference to a shared custom function.
    RefOfCustom for &&&Probe<'_, &Arc<F>>;
    /// A shared custom function.
    ArcOfCustom for &&Probe<'_, Arc<F>>;
}

/// Any other value, which may become a custom function by a `Deref` of the user's.
pub trait NotCustom: Sized {
    /// Answers no.
    fn custom(self) -> NotTraced {
        never()
    }
}

impl<T: ?Sized> NotCustom for &Probe<'_, T> {}

/// A value with elements.
pub trait ElementOf<'a> {
    /// Type of the elements.
    type Elem: ?Sized + 'a;
    /// Returns an element.
    fn elem(self) -> &'a Self::Elem;
}

impl<'a, T: KnownType + ?Sized> ElementOf<'a> for &&Probe<'a, T>
where
    T::Elem: 'a,
{
    type Elem = T::Elem;
    fn elem(self) -> &'a T::Elem {
        never()
    }
}

/// A value that is not known to have elements.
pub trait NoElement: Sized {
    /// Returns a value of a type without known methods.
    fn elem(self) -> Foreign {
        never()
    }
}

impl<T: ?Sized> NoElement for &Probe<'_, T> {}

/// A standard library pointer.
pub trait PointerTarget<'a> {
    /// Type that the pointer points at.
    type Target: ?Sized + 'a;
    /// Returns the target.
    fn peel(self) -> &'a Self::Target;
}

/// Any other value.
pub trait NoTarget<'a, T: ?Sized>: Sized {
    /// Returns the value itself.
    fn peel(self) -> &'a T;
}

impl<'a, T: ?Sized> NoTarget<'a, T> for &Probe<'a, T> {
    fn peel(self) -> &'a T {
        self.0
    }
}

macro_rules! peels {
    ($($ty:ty;)*) => {$(
        impl<'a, T: ?Sized> PointerTarget<'a> for &&Probe<'a, $ty> {
            type Target = T;
            fn peel(self) -> &'a T {
                self.0
            }
        }
    )*};
}
peels! {
    &T; &mut T; Box<T>; Rc<T>; Arc<T>; ManuallyDrop<T>;
    Ref<'_, T>; RefMut<'_, T>; MutexGuard<'_, T>; RwLockReadGuard<'_, T>; RwLockWriteGuard<'_, T>;
}

/// Marker of the method that rustc has resolved a call to. Only traced methods have one.
#[diagnostic::on_unimplemented(
    message = "this method is not traced",
    label = "a method of a type without `#[traced]`",
    note = "put `#[traced]` on the method, or `#[traced(record)]` on the function that calls it; or, if the traced method is one of the type behind a `Deref` of yours, call it on that: `(*model).forward(&x)`"
)]
pub trait Nearest {}

impl<F: Facts> Nearest for Marker<F> {}

/// Fails to compile if the method that rustc calls is not traced.
///
/// A type with `Deref` may have a method of its own with the name of a traced method of its target.
pub fn nearest<A: Nearest>(_: A) {}

/// A value that is an iterator, or can be converted to one.
pub trait IteratedItem {
    /// Type of the items.
    type Item;
    /// Returns an item.
    fn item(self) -> Self::Item;
}

impl<T: IntoIterator> IteratedItem for &&Probe<'_, T> {
    type Item = T::Item;
    fn item(self) -> T::Item {
        never()
    }
}

/// A value that cannot be iterated.
pub trait NoItem: Sized {
    /// Returns a value of a type without known methods.
    fn item(self) -> Foreign {
        never()
    }
}

impl<T: ?Sized> NoItem for &Probe<'_, T> {}

/// Answers that a function is not known to be traced.
pub type NotTraced = ClassAnswer<Foreign, 1>;

/// Marker of a traced function or of a transform.
pub trait IsMarked: Sized {
    /// Type that has the facts of the function.
    type Facts: Facts;
    /// Answers yes.
    fn marked(self) -> Marker<Self::Facts> {
        never()
    }
}

impl<T: Facts> IsMarked for &&Probe<'_, T> {
    type Facts = T;
}

/// Any value that is not a marker.
pub trait IsNotMarked: Sized {
    /// Answers no.
    fn marked(self) -> NotTraced {
        never()
    }
}

impl<T: ?Sized> IsNotMarked for &Probe<'_, T> {}

/// Fallbacks for the names of markers. An import of a real marker in an inner scope shadows them.
#[allow(non_upper_case_globals)]
pub mod unmarked {
    /// Fallback for the type beside a traced function, if a function is not traced.
    pub enum __Traced {}
    /// Fallback for the marker of a traced function: answers that a function is not traced.
    pub const __TRACED: super::Foreign = super::Foreign;
    /// Fallback for the marker of a traced trait: answers that a trait is not traced.
    pub const __Trait: super::NotTraced = super::ClassAnswer::new();
}

/// Marker of the function that a traced body calls. Only traced functions have one.
#[diagnostic::on_unimplemented(
    message = "this function is not traced",
    label = "a function without `#[traced]`",
    note = "put `#[traced]` on it, or `#[traced(record)]` on the function that calls it"
)]
pub trait TracedFunction {}

impl<F: Facts> TracedFunction for Marker<F> {}

/// Fails to compile if a function that a traced body calls is not traced.
pub fn traced_function<A: TracedFunction>(_: fn() -> A) {}

/// Fallbacks for callees. The type beside a traced function shadows them in an inner scope.
pub mod untraced {
    pub use crate::__if_not_declared as __select;

    /// Fallback for the type beside a traced function.
    ///
    /// Its derivatives are of any type, so that the only error is that of [`traced_function`].
    ///
    /// [`traced_function`]: super::traced_function
    pub struct __Traced<F = ()>(super::PhantomData<F>);

    #[allow(non_upper_case_globals)]
    impl<F> __Traced<F> {
        /// Fallback for the function that starts reverse mode.
        pub const __fwd: F = panic!();
        /// Fallback for the function of forward mode.
        pub const __jvp: F = panic!();
    }

    impl __Traced {
        /// Fallback for the function that returns the marker.
        pub fn __facts() -> super::NotTraced {
            super::never()
        }
    }
}

/// Expands to the path of a traced function that is declared in a scope around the call.
#[doc(hidden)]
#[macro_export]
macro_rules! __if_declared {
    ({ $($declared:tt)* } { $($imported:tt)* }) => { $($declared)* };
}

/// Expands to the path of a function that is imported, or is not traced.
#[doc(hidden)]
#[macro_export]
macro_rules! __if_not_declared {
    ({ $($declared:tt)* } { $($imported:tt)* }) => { $($imported)* };
}

/// Answers whether the `Tree` of a type is derived, and all of its skipped fields are plain values.
pub struct TreeAnswer<T>(PhantomData<T>);

macro_rules! trees {
    ($($(#[$doc:meta])* $name:ident for $ty:ty;)*) => {$(
        $(#[$doc])*
        pub trait $name<T>: Sized {
            /// Answers whether the tree is derived.
            fn tree(self) -> TreeAnswer<T> {
                never()
            }
            /// Returns a tree of the same type.
            fn mapped(self) -> T {
                never()
            }
        }
        impl<T: Tree> $name<T> for $ty {}
    )*};
}
trees! {
    /// A reference to a tree.
    RefTree for &&&Probe<'_, &T>;
    /// A tree.
    OwnTree for &&Probe<'_, T>;
}

/// Any other value.
pub trait NoTree: Sized {
    /// Answers no.
    fn tree(self) -> NotTraced {
        never()
    }
    /// Returns a value of a type without known methods.
    fn mapped(self) -> Foreign {
        never()
    }
}

impl<T: ?Sized> NoTree for &Probe<'_, T> {}

/// Answer to a question about a type.
pub trait Answer {
    /// True if the answer is yes.
    const YES: bool;
    /// Facts of the traced function that the question is about.
    type Facts: Facts;
}

impl<C: Class, const MASK: u32> Answer for ClassAnswer<C, MASK> {
    const YES: bool = C::BIT & MASK != 0;
    type Facts = NoFacts;
}

impl<F: Facts> Answer for Marker<F> {
    const YES: bool = true;
    type Facts = F;
}

/// Answers yes if one of two answers is yes. The facts are those of the second one.
pub struct Either<A, B>(PhantomData<(A, B)>);

impl<A: Answer, B: Answer> Answer for Either<A, B> {
    const YES: bool = A::YES || B::YES;
    type Facts = A::Facts;
}

/// Combines two answers into the answer whether one of them is yes.
pub fn either<A: Answer, B: Answer>(_: A, _: B) -> Either<A, B> {
    never()
}

/// Answers yes if both of two answers are yes.
pub struct Both<A, B>(PhantomData<(A, B)>);

impl<A: Answer, B: Answer> Answer for Both<A, B> {
    const YES: bool = A::YES && B::YES;
    type Facts = NoFacts;
}

/// Combines two answers into the answer whether both of them are yes.
pub fn both<A: Answer, B: Answer>(_: A, _: B) -> Both<A, B> {
    never()
}

impl<T: Tree> Answer for TreeAnswer<T> {
    const YES: bool = T::__SHARED.is_none();
    type Facts = NoFacts;
}

impl<F: CustomFunction> Answer for CustomAnswer<F> {
    const YES: bool = F::PURE;
    type Facts = NoFacts;
}

/// A list of answers, as nested pairs.
pub trait Answers {
    /// Number of answers.
    const N: usize;
    /// Number of answers before the first no.
    const N_YES: usize;
}

impl Answers for () {
    const N: usize = 0;
    const N_YES: usize = 0;
}

/// Two lists of answers. Chunks limit the depth of a type.
pub struct Chunks<A, B>(PhantomData<(A, B)>);

impl<A: Answers, B: Answers> Answers for Chunks<A, B> {
    const N: usize = A::N + B::N;
    const N_YES: usize = match A::N_YES == A::N {
        true => A::N + B::N_YES,
        false => A::N_YES,
    };
}

/// Appends a list of answers to another one.
pub fn chunks<A: Answers, B: Answers>(_: A, _: B) -> Chunks<A, B> {
    never()
}

/// Place in a copy of the body where the type of an expression is the answer to a question.
///
/// The copy is compiled and never runs. Its expressions have the types that they have in the body.
pub struct Spot<A: ?Sized>(PhantomData<fn() -> PhantomData<A>>);

impl<A: ?Sized> Clone for Spot<A> {
    fn clone(&self) -> Spot<A> {
        *self
    }
}

impl<A: ?Sized> Copy for Spot<A> {}

impl<T: ?Sized> Spot<T> {
    /// Creates a spot whose answer, or whose type in question, is inferred.
    #[expect(clippy::new_without_default, reason = "only the macro makes spots")]
    pub const fn new() -> Spot<T> {
        Spot(PhantomData)
    }

    /// Returns `value`, and determines `T` by the type of the first argument.
    ///
    /// rustc may know that type only at the end of the body, so the question is asked there.
    pub fn typed<V>(self, _: &T, value: V) -> V {
        value
    }

    /// Returns a value of the type in question. Never runs.
    pub fn value<'a>(self) -> &'a T {
        never()
    }
}

impl<T> Spot<T> {
    /// Returns `value`, and determines `T` by its type.
    pub fn typed_value(self, value: T) -> T {
        value
    }
}

impl<A> Spot<A> {
    /// Returns the answer. Never runs.
    pub fn answer(self) -> A {
        never()
    }

    /// Returns `value`, and determines `A` by the type of the first argument.
    pub fn beside<T>(self, _: A, value: T) -> T {
        value
    }

    /// Returns `value`, and determines `A` by the result of the closure, which never runs.
    pub fn asked<T>(self, value: T, _: impl FnOnce(&T) -> A) -> T {
        value
    }
}

/// The value of an expression at a [`Spot`].
pub trait SpotValue: Sized {
    /// Returns the value, and determines `A` by the result of the closure, which never runs.
    fn __spot_of_gradloom<A>(self, _: Spot<A>, _: impl FnOnce(&Self) -> A) -> Self {
        self
    }
}

impl<T> SpotValue for T {}

impl<A: Answer, B: Answers> Answers for (A, B) {
    const N: usize = 1 + B::N;
    const N_YES: usize = match A::YES {
        true => 1 + B::N_YES,
        false => 0,
    };
}

/// Returns the number of answers before the first no. Only the return type of the closure is used:
/// it never runs.
pub const fn n_yes<R: Answers, F: Fn() -> R>(_: &F) -> usize {
    R::N_YES
}

/// Type before the name of a function in a path.
pub struct Owner<T: ?Sized>(PhantomData<T>);

/// Every type, so that a path such as `Vec::new` has an owner.
pub trait PathOwner {
    /// Returns the type.
    fn __owner_of_gradloom() -> Owner<Self> {
        never()
    }
}

impl<T: ?Sized> PathOwner for T {}

/// The result of a function that is called by a path, beside the owner.
pub struct Made<'a, O: ?Sized, R: ?Sized>(pub Owner<O>, pub &'a R);

/// A type of the standard library that has functions known to the macro.
pub trait StandardOwner {}

macro_rules! owners {
    ($([$($params:tt)*] $ty:ty;)*) => {$(
        impl<$($params)*> StandardOwner for $ty {}
    )*};
}
owners! {
    [] String;
    [] Duration;
    [T] Vec<T>;
    [T] VecDeque<T>;
    [K, V] BTreeMap<K, V>;
    [K] BTreeSet<K>;
    [K, V] HashMap<K, V, RandomState>;
    [K] HashSet<K, RandomState>;
    [T: ?Sized] Box<T>;
    [T: ?Sized] Rc<T>;
    [T: ?Sized] Arc<T>;
    [T: ToOwned + ?Sized] Cow<'_, T>;
}

/// A function that returns its owner, a type of the standard library.
pub trait StandardMade: Sized {
    /// Answers yes.
    fn owner(self) -> ClassAnswer<Plain, 1> {
        never()
    }
}

impl<T: StandardOwner + ?Sized> StandardMade for &&&Made<'_, T, T> {}

/// Another function that returns its owner, which determines the generic arguments of the path.
pub trait ForeignMade: Sized {
    /// Answers no.
    fn owner(self) -> ClassAnswer<Foreign, 1> {
        never()
    }
}

impl<T: ?Sized> ForeignMade for &&Made<'_, T, T> {}

/// Any other function.
pub trait OtherMade: Sized {
    /// Answers no.
    fn owner(self) -> ClassAnswer<Foreign, 1> {
        never()
    }
}

impl<O: ?Sized, R: ?Sized> OtherMade for &Made<'_, O, R> {}

/// Returns a value of type `T`. Never runs.
pub fn some<T>() -> T {
    never()
}

/// Returns the Jacobian of a function with this result by this argument. Never runs.
pub fn some_jacobian<R: Outcome<Tree: JacobianTree>, X: Tree>(
    _: R,
    _: &X,
) -> R::Wrap<<R::Tree as JacobianTree>::Blocks<X>> {
    never()
}

/// Returns an item of an iterator. Never runs.
pub fn item<I: IntoIterator>(_: I) -> I::Item {
    never()
}

fn never() -> ! {
    unreachable!("functions that only serve type inference do not run")
}
