//! Calls of functions of traits.
//!
//! The macro does not see which impl a call in a generic function runs. `#[traced]` on a trait adds
//! a hidden *hook* beside each function `f`, which returns a type or a value that names `f` of the
//! instance. The caller notes the call, and the body of a traced impl notes that it runs: see
//! [`call_of_trait`].

use super::facts::NoFacts;
use super::known::{Answer, ClassAnswer, Either};
use crate::graph::recording::{call_of_trait, enter_traced_impl, is_recording, untraced_call};
use std::any::type_name;
use std::marker::PhantomData;

/// Answer of the hook of a method: the trait is traced. A constant of this type has the name of the
/// trait.
pub struct TraitMethod(());

impl TraitMethod {
    /// Marks a traced trait.
    pub const TRAIT: TraitMethod = TraitMethod(());
}

impl Answer for TraitMethod {
    const YES: bool = true;
    type Facts = NoFacts;
}

/// Answer of the hook of a function without a receiver. `F` is the type of the function.
pub struct TraitFunction<F>(PhantomData<fn() -> F>);

impl<F> Answer for TraitFunction<F> {
    const YES: bool = true;
    type Facts = NoFacts;
}

/// Answer about a function of a trait, which may be traced.
pub trait TraitCallee: Answer {
    /// Notes a call of the function in the current recording.
    fn note();
}

impl<F> TraitCallee for TraitFunction<F> {
    fn note() {
        note_call::<F>();
    }
}

impl<C, const MASK: u32> TraitCallee for ClassAnswer<C, MASK>
where
    ClassAnswer<C, MASK>: Answer,
{
    fn note() {
        untraced_call();
    }
}

impl<A: Answer, B: TraitCallee> TraitCallee for Either<A, B> {
    fn note() {
        if !A::YES {
            B::note();
        }
    }
}

fn note_call<F>() {
    if is_recording() {
        call_of_trait(typeid::of::<F>(), type_name::<F>());
    }
}

/// Returns the answer of a hook, which names the function `F`. It runs in each call of a method.
pub fn trait_method<F>(_: &F) -> TraitMethod {
    note_call::<F>();
    TraitMethod(())
}

/// Returns the answer of a hook, which names the function `F`.
pub const fn trait_function<F>(_: &F) -> TraitFunction<F> {
    TraitFunction(PhantomData)
}

/// Returns the answer for a method whose trait is not traced. It runs in each call of the method.
pub fn untraced_method() -> super::known::NotTraced {
    untraced_call();
    ClassAnswer::new()
}

/// Notes the call of a method in a generic function: `own` has the type of the method's own marker,
/// and `hook` calls the hook of its trait.
pub fn note_method<A: Answer, B>(_: &impl Fn() -> A, hook: impl FnOnce() -> B) {
    if is_recording() && !A::YES {
        hook();
    }
}

/// Notes the call of a function of a type parameter. Only the type of the closure is used.
pub fn note_function<B: TraitCallee>(_: &impl Fn() -> B) {
    if is_recording() {
        B::note();
    }
}

/// Notes that a traced impl of a function of a trait runs.
pub fn enter_impl<F>(_: &F) {
    if is_recording() {
        enter_traced_impl(typeid::of::<F>());
    }
}

/// The types of two functions.
pub struct FunctionPair<F, G>(PhantomData<fn() -> (F, G)>);

/// Returns the types of two functions.
pub const fn function_pair<F, G>(_: &F, _: &G) -> FunctionPair<F, G> {
    FunctionPair(PhantomData)
}

/// A function and itself.
#[diagnostic::on_unimplemented(
    message = "this type has another method with the name of this traced method of a trait",
    label = "the type has an inherent method with this name",
    note = "calls run the inherent method; rename one of them, or call the inherent method in this one, and put `#[traced]` on both"
)]
pub trait SameFunction {}

impl<F> SameFunction for FunctionPair<F, F> {}

/// Fails to compile if a path does not name the method of the trait.
pub fn is_method_of_trait<P: SameFunction>(_: P) {}
