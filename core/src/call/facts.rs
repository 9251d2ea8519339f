//! Constants that a traced function provides to its callers.
//!
//! They are its hash, and the reason why its calls are recorded, if they are.
//!
//! The macro does not see the type of a receiver, so it cannot resolve a method call. rustc can:
//! each traced function has a hidden twin that returns a marker type, and the constants belong to
//! that type. The function that collects the markers of all callees never runs.
//!
//! Functions with control flow may call each other in a cycle, and a cycle of constants is an
//! error. Such a function therefore has facts on several levels. Level `k` reads the callees on
//! level `k - 1`, and level 0 reads none.

use super::hash::fold_hash;
use super::known::Answer;
use std::marker::PhantomData;

/// Facts about a traced function.
#[derive(Clone, Copy)]
pub struct Fact {
    /// Hash of the function and of its callees.
    pub hash: [u8; 32],
    /// Reason why a call is not known to be pure. `None` if it is pure.
    pub why: Option<StaticReason>,
}

/// A reason why a call is recorded: of the function itself, or inherited from a callee.
#[derive(Clone, Copy)]
pub struct StaticReason {
    /// The whole reason, or the words that precede the callee's reason.
    text: &'static str,
    callee: Option<&'static StaticReason>,
}

/// Facts about a function without its callees.
#[derive(Clone, Copy)]
pub struct OwnFacts {
    /// Hash of the source.
    pub hash: [u8; 32],
    /// Reason why a call has side effects, or `None` if it has none.
    pub impure: Option<&'static str>,
}

impl OwnFacts {
    /// Returns the reason why each call is recorded: side effects, or else `siteless`.
    pub const fn or(self, siteless: Option<&'static str>) -> Option<&'static str> {
        match self.impure {
            None => siteless,
            why => why,
        }
    }
}

impl Fact {
    /// Returns the facts of a function without callees.
    pub const fn own(own: OwnFacts) -> Fact {
        Fact::with(own, CalleesFact::NONE, &[])
    }

    /// Combines the function's own facts with those of its callees. `calls` describes each call.
    pub const fn with(own: OwnFacts, callees: CalleesFact, calls: &[&'static str]) -> Fact {
        let why = match (own.impure, callees.first) {
            (Some(text), _) => Some(StaticReason { text, callee: None }),
            (None, None) => None,
            (None, Some((i, why))) => Some(StaticReason {
                text: calls[i],
                callee: Some(why),
            }),
        };
        let hash = match calls {
            [] => own.hash,
            _ => fold_hash(own.hash, &[callees.hash]),
        };
        Fact { hash, why }
    }
}

/// Combined facts of a list of callees.
#[derive(Clone, Copy)]
pub struct CalleesFact {
    hash: [u8; 32],
    /// Index and reason of the first callee that is not known to be pure.
    first: Option<(usize, &'static StaticReason)>,
}

impl CalleesFact {
    const NONE: CalleesFact = CalleesFact {
        hash: [0; 32],
        first: None,
    };

    /// Returns whether callee `i` is the first one that is not known to be pure.
    pub const fn is_first(&self, i: usize) -> bool {
        matches!(self.first, Some((first, _)) if first == i)
    }

    const fn after(self, fact: &'static Fact) -> CalleesFact {
        let first = match (&fact.why, self.first) {
            (Some(why), _) => Some((0, why)),
            (None, Some((i, why))) => Some((i + 1, why)),
            (None, None) => None,
        };
        let hash = fold_hash(fact.hash, &[self.hash]);
        CalleesFact { hash, first }
    }
}

/// Stands for one callee. Type inference in a function that never runs determines `M`.
pub struct CalleeSlot<M>(PhantomData<fn() -> M>);

impl<M> CalleeSlot<M> {
    /// Creates a slot whose marker type is inferred.
    #[expect(clippy::new_without_default, reason = "only the macro makes slots")]
    pub const fn new() -> CalleeSlot<M> {
        CalleeSlot(PhantomData)
    }

    /// Returns the slot of a call to a function with this marker.
    pub const fn of<A: Answer<Facts = M>>(_: fn() -> A) -> CalleeSlot<M> {
        CalleeSlot(PhantomData)
    }

    /// Returns the slot of a call to a method with this marker.
    pub const fn of_method<T: ?Sized>(_: fn(&T) -> Marker<M>) -> CalleeSlot<M> {
        CalleeSlot(PhantomData)
    }

    /// Returns the slot of a function that a recorded body calls, if it is traced.
    pub const fn answered<A: Answer<Facts = M>, F: Fn() -> A>(_: &F) -> CalleeSlot<M> {
        CalleeSlot(PhantomData)
    }

    /// Returns the result of a call, without the marker.
    pub fn result<T>(&self, (result, _): (T, Marker<M>)) -> T {
        result
    }
}

/// Marker of a function, as a value.
pub struct Marker<M>(pub PhantomData<fn() -> M>);

/// Marker of transforms and of functions that are not traced.
pub enum NoFacts {}

impl Facts for NoFacts {
    const LEVEL_0: Fact = Fact {
        hash: [0; 32],
        why: None,
    };
}

macro_rules! levels {
    ($($level:ident $before:ident)*) => {
        /// Facts of a traced function, by level.
        pub trait Facts {
            /// Facts without callees.
            const LEVEL_0: Fact;
            /// Hash of the function, the constants that it names, and its callees.
            const HASH: [u8; 32] = Self::LEVEL_8.hash;
            $(
                /// Facts with callees on the level below.
                const $level: Fact = Self::$before;
            )*
        }

        /// Combined facts of a list of callees, by level.
        pub trait Callees {
            #[doc(hidden)]
            const LEVEL_0: CalleesFact;
            $(#[doc(hidden)] const $level: CalleesFact;)*
        }

        impl Callees for () {
            const LEVEL_0: CalleesFact = CalleesFact::NONE;
            $(const $level: CalleesFact = CalleesFact::NONE;)*
        }

        impl<M: Facts, Rest: Callees> Callees for (CalleeSlot<M>, Rest) {
            const LEVEL_0: CalleesFact = Rest::LEVEL_0.after(&M::LEVEL_0);
            $(const $level: CalleesFact = Rest::$level.after(&M::$level);)*
        }

        /// Readers of the facts of a list of callees, one function for each level.
        #[allow(non_snake_case)]
        pub mod callees {
            use super::{Callees, CalleesFact};

            #[doc(hidden)]
            pub const fn LEVEL_0<R: Callees, F: Fn() -> R>(_: &F) -> CalleesFact {
                R::LEVEL_0
            }
            $(
                #[doc(hidden)]
                pub const fn $level<R: Callees, F: Fn() -> R>(_: &F) -> CalleesFact {
                    R::$level
                }
            )*
        }
    };
}
levels! {
    LEVEL_1 LEVEL_0 LEVEL_2 LEVEL_1 LEVEL_3 LEVEL_2 LEVEL_4 LEVEL_3
    LEVEL_5 LEVEL_4 LEVEL_6 LEVEL_5 LEVEL_7 LEVEL_6 LEVEL_8 LEVEL_7
}

/// A reason as text, truncated to a fixed length.
pub struct Text {
    bytes: [u8; Text::ROOM],
    len: usize,
}

impl Text {
    const ROOM: usize = 1024;

    /// Formats a reason, or the empty text if there is none.
    pub const fn of(why: Option<StaticReason>) -> Text {
        let mut text = Text {
            bytes: [0; Text::ROOM],
            len: 0,
        };
        let Some(mut why) = why else {
            return text;
        };
        loop {
            text.append(why.text);
            why = match why.callee {
                Some(callee) => *callee,
                None => return text,
            };
        }
    }

    const fn append(&mut self, part: &str) {
        let part = part.as_bytes();
        let mut i = 0;
        while i < part.len() && self.len < Text::ROOM {
            self.bytes[self.len] = part[i];
            self.len += 1;
            i += 1;
        }
        // Do not cut a character of several bytes.
        if i < part.len() {
            while self.len > 0 && std::str::from_utf8(self.bytes.split_at(self.len).0).is_err() {
                self.len -= 1;
            }
        }
    }

    /// Returns the reason, or `other` if there is none.
    pub const fn or(&'static self, other: Option<&'static str>) -> Option<&'static str> {
        if self.len == 0 {
            return other;
        }
        match std::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => Some(text),
            Err(_) => other,
        }
    }
}
