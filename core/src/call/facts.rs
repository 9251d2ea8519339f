//! What a traced function tells its callers in constants: its hash, and why calls of it are recorded.
//!
//! The macro does not see the type of a receiver, so it does not know which method a call means. rustc does: each traced
//! function returns a marker type from a hidden function, and the constants belong to that type. The function that
//! collects the markers of all callees never runs.
//!
//! Functions with control flow may call each other in a cycle, and a cycle of constants is an error. So a function has its
//! facts on several levels: on level `k` such a function reads its callees on level `k - 1`, and on level 0 it reads none.

use super::hash::fold_hash;
use super::known::Answer;
use std::marker::PhantomData;

/// A hash, and the reason why calls are recorded.
#[derive(Clone, Copy)]
pub struct Fact {
    /// The hash of the function and of its callees.
    pub hash: [u8; 32],
    /// Why a call of it does more than compute.
    pub why: Option<Why>,
}

/// A reason: that of the function itself, or of its callee.
#[derive(Clone, Copy)]
pub struct Why {
    /// The reason, or the words before that of the callee.
    text: &'static str,
    callee: Option<&'static Why>,
}

impl Fact {
    /// The fact of a function with these callees, whose calls `calls` describes in their order.
    pub const fn with(
        own: [u8; 32],
        why: Option<&'static str>,
        callees: CalleesFact,
        calls: &[&'static str],
    ) -> Fact {
        let why = match (why, callees.first) {
            (Some(text), _) => Some(Why { text, callee: None }),
            (None, None) => None,
            (None, Some((i, why))) => Some(Why {
                text: calls[i],
                callee: Some(why),
            }),
        };
        let hash = match calls {
            [] => own,
            _ => fold_hash(own, &[callees.hash]),
        };
        Fact { hash, why }
    }
}

/// What a list of callees says.
#[derive(Clone, Copy)]
pub struct CalleesFact {
    hash: [u8; 32],
    /// The first callee that does more than compute, by its number.
    first: Option<(usize, &'static Why)>,
}

impl CalleesFact {
    const NONE: CalleesFact = CalleesFact {
        hash: [0; 32],
        first: None,
    };

    /// Whether this callee is the first that does more than compute.
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

/// The type of a callee, which the body of a function that never runs decides.
pub struct Slot<M>(PhantomData<fn() -> M>);

impl<M> Slot<M> {
    /// A place for the marker of one call.
    #[expect(clippy::new_without_default, reason = "only the macro makes slots")]
    pub const fn new() -> Slot<M> {
        Slot(PhantomData)
    }

    /// The slot of a call of a function with this marker.
    pub const fn of(_: fn() -> Marker<M>) -> Slot<M> {
        Slot(PhantomData)
    }

    /// The slot of a function that a recorded body calls, if rustc answers that it is traced.
    pub const fn answered<A: Answer<Facts = M>, F: Fn() -> A>(_: &F) -> Slot<M> {
        Slot(PhantomData)
    }

    /// The result of a call, without the marker.
    pub fn result<T>(&self, (result, _): (T, Marker<M>)) -> T {
        result
    }
}

/// The marker of a function, as a value.
pub struct Marker<M>(pub PhantomData<fn() -> M>);

/// The facts of a function that is not traced, and of a transform.
pub enum NoFacts {}

impl Facts for NoFacts {
    const LEVEL_0: Fact = Fact {
        hash: [0; 32],
        why: None,
    };
}

macro_rules! levels {
    ($($level:ident $before:ident)*) => {
        /// The facts of a traced function.
        pub trait Facts {
            /// Without callees.
            const LEVEL_0: Fact;
            $(
                /// With callees on the level before.
                const $level: Fact = Self::$before;
            )*
        }

        /// The facts of a list of callees.
        pub trait Callees {
            #[doc(hidden)]
            const LEVEL_0: CalleesFact;
            $(#[doc(hidden)] const $level: CalleesFact;)*
        }

        impl Callees for () {
            const LEVEL_0: CalleesFact = CalleesFact::NONE;
            $(const $level: CalleesFact = CalleesFact::NONE;)*
        }

        impl<M: Facts, Rest: Callees> Callees for (Slot<M>, Rest) {
            const LEVEL_0: CalleesFact = Rest::LEVEL_0.after(&M::LEVEL_0);
            $(const $level: CalleesFact = Rest::$level.after(&M::$level);)*
        }

        /// What the callees that a function returns say, level by level.
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

/// A reason as one text. The end of a long one is left out.
pub struct Text {
    bytes: [u8; Text::ROOM],
    len: usize,
}

impl Text {
    const ROOM: usize = 1024;

    /// The text of a reason, which is empty if there is none.
    pub const fn of(why: Option<Why>) -> Text {
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
        // A character of several bytes is whole or left out.
        if i < part.len() {
            while self.len > 0 && std::str::from_utf8(self.bytes.split_at(self.len).0).is_err() {
                self.len -= 1;
            }
        }
    }

    /// The reason, or else another one.
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
