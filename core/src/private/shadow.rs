//! Second derivatives for the records of a backward pass.

use crate::call::companion_pullback::{CompanionPullback, with_shadow};

/// Result and pullback of a companion, or an error instead.
pub trait Shadowed {
    /// Returns the value, whose pullback also calls that of `shadow`, which writes records.
    fn with_shadow(self, shadow: Self) -> Self;
}

impl<Y> Shadowed for (Y, CompanionPullback) {
    fn with_shadow(self, shadow: Self) -> Self {
        let (y, pull) = self;
        (y, with_shadow(pull, shadow.1))
    }
}

impl<T: Shadowed, E> Shadowed for Result<T, E> {
    fn with_shadow(self, shadow: Self) -> Self {
        match (self, shadow) {
            (Ok(value), Ok(shadow)) => Ok(value.with_shadow(shadow)),
            (value, _) => value,
        }
    }
}
