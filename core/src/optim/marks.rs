//! Tells the macro that optimisers are numbers, and that their steps have no effects.
//!
//! `init` has one: it computes the state.

use super::{Adam, AdamW, Sgd};
use crate::call::facts::{Marker, NoFacts};
use crate::call::known::{FullyKnownType, KnownType, OfOptimiser};

macro_rules! optimisers {
    ($($ty:ident)*) => {$(
        impl KnownType for $ty {
            type Class = OfOptimiser;
            type Elem = ();
        }
        impl FullyKnownType for $ty {}
        optimisers!($ty: __traced_step_mark __traced_step_with_mark);
    )*};
    ($ty:ident: $($mark:ident)*) => {
        impl $ty {$(
            #[doc(hidden)]
            pub fn $mark(&self) -> Marker<NoFacts> {
                unreachable!("markers only serve type inference")
            }
        )*}
    };
}
optimisers! { Adam AdamW Sgd }
