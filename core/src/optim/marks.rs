//! Tells the macro that optimisers are numbers, and that their steps have no effects.
//!
//! `init` has one: it computes the state.

use super::{
    Accumulated, Adafactor, Adagrad, Adam, AdamW, Average, Clipped, Frozen, Grouped, Lamb, Lion,
    LossScaled, RmsProp, Schedule, Scheduled, Sgd,
};
use crate::call::facts::{Marker, NoFacts};
use crate::call::known::{FullyKnownType, KnownType, OfOptimiser};

macro_rules! optimisers {
    ($($ty:ident $(<$($param:ident),*>)?: $($mark:ident)*;)*) => {$(
        impl $(<$($param),*>)? KnownType for $ty $(<$($param),*>)? {
            type Class = OfOptimiser;
            type Elem = ();
        }
        impl $(<$($param: FullyKnownType),*>)? FullyKnownType for $ty $(<$($param),*>)? {}
        optimisers!($ty [$($($param)*)?] $($mark)*);
    )*};
    ($ty:ident [] $($mark:ident)*) => {
        impl $ty {
            optimisers!($($mark)*);
        }
    };
    ($ty:ident [$a:ident] $($mark:ident)*) => {
        impl<$a: FullyKnownType> $ty<$a> {
            optimisers!($($mark)*);
        }
    };
    ($ty:ident [$a:ident $b:ident] $($mark:ident)*) => {
        impl<$a: FullyKnownType, $b: FullyKnownType> $ty<$a, $b> {
            optimisers!($($mark)*);
        }
    };
    ($($mark:ident)*) => {$(
        #[doc(hidden)]
        pub fn $mark(&self) -> Marker<NoFacts> {
            unreachable!("markers only serve type inference")
        }
    )*};
}
optimisers! {
    Adafactor: __traced_step_mark __traced_step_with_mark;
    Adagrad: __traced_step_mark __traced_step_with_mark;
    Adam: __traced_step_mark __traced_step_with_mark;
    AdamW: __traced_step_mark __traced_step_with_mark;
    Frozen: __traced_step_mark __traced_step_with_mark;
    Lamb: __traced_step_mark __traced_step_with_mark;
    Lion: __traced_step_mark __traced_step_with_mark;
    RmsProp: __traced_step_mark __traced_step_with_mark;
    Sgd: __traced_step_mark __traced_step_with_mark;
    Accumulated<O>: __traced_step_mark __traced_step_with_mark;
    Clipped<O>: __traced_step_mark __traced_step_with_mark;
    Grouped<O, G>: __traced_step_mark __traced_step_with_mark;
    LossScaled<O>: __traced_step_mark __traced_step_with_mark;
    Scheduled<O>: __traced_step_mark __traced_step_with_mark;
    Average: __traced_update_mark __traced_value_mark;
    Schedule: __traced_at_mark;
}
