//! Sizes of residuals.

use crate::__private::{List, Step};
use crate::call::companion_pullback::CompanionPullback;
use crate::call::leaf_range::LeafRange;
use crate::{Aval, Tensor};
use gradloom_ir::Static;
use std::collections::HashSet;

/// Total size of some residuals. A tensor that occurs twice counts once.
#[derive(Default)]
pub struct ResidualBytes {
    seen: HashSet<usize>,
    bytes: usize,
}

/// A field of a struct of residuals.
pub trait Residual {
    /// Adds the tensors of the field to the total.
    fn keep(&self, total: &mut ResidualBytes);
}

/// Returns the number of bytes that the fields of a struct of residuals keep alive.
pub fn bytes(fields: &[&dyn Residual]) -> usize {
    let mut total = ResidualBytes::default();
    fields.iter().for_each(|field| field.keep(&mut total));
    total.bytes
}

impl Residual for Tensor {
    fn keep(&self, total: &mut ResidualBytes) {
        if total.seen.insert(self.address()) {
            total.bytes += self.aval().bytes();
        }
    }
}

impl<const N: usize> Residual for [LeafRange; N] {
    fn keep(&self, _: &mut ResidualBytes) {}
}

impl<T: Residual> Residual for List<T> {
    fn keep(&self, total: &mut ResidualBytes) {
        self.iter().for_each(|part| part.keep(total));
    }
}

impl Residual for CompanionPullback {
    fn keep(&self, total: &mut ResidualBytes) {
        total.bytes += self.bytes;
    }
}

impl Residual for Vec<Step> {
    fn keep(&self, total: &mut ResidualBytes) {
        for step in self {
            step.tensors().keep(total);
            step.calls().keep(total);
        }
    }
}

macro_rules! nothing_kept {
    ($($ty:ty),*) => {$(
        impl Residual for $ty {
            fn keep(&self, _: &mut ResidualBytes) {}
        }
    )*};
}
nothing_kept! { Aval, Static, LeafRange }
