//! Sizes of residuals.

use crate::__private::{List, Step};
use crate::call::leaf_range::At;
use crate::call::pull::Pull;
use crate::{Aval, Tensor};
use gradloom_ir::Static;
use std::collections::HashSet;

/// Total size of some residuals. A tensor that occurs twice counts once.
#[derive(Default)]
pub struct Kept {
    seen: HashSet<usize>,
    bytes: usize,
}

/// A field of a struct of residuals.
pub trait Residual {
    /// Adds the tensors of the field to the total.
    fn keep(&self, kept: &mut Kept);
}

/// Returns the number of bytes that the fields of a struct of residuals keep alive.
pub fn bytes(fields: &[&dyn Residual]) -> usize {
    let mut kept = Kept::default();
    fields.iter().for_each(|field| field.keep(&mut kept));
    kept.bytes
}

impl Residual for Tensor {
    fn keep(&self, kept: &mut Kept) {
        if kept.seen.insert(self.address()) {
            kept.bytes += self.aval().bytes();
        }
    }
}

impl<T: Residual> Residual for List<T> {
    fn keep(&self, kept: &mut Kept) {
        self.iter().for_each(|part| part.keep(kept));
    }
}

impl Residual for Pull {
    fn keep(&self, kept: &mut Kept) {
        kept.bytes += self.bytes;
    }
}

impl Residual for Vec<Step> {
    fn keep(&self, kept: &mut Kept) {
        for step in self {
            step.tensors().keep(kept);
            step.calls().keep(kept);
        }
    }
}

macro_rules! nothing_kept {
    ($($ty:ty),*) => {$(
        impl Residual for $ty {
            fn keep(&self, _: &mut Kept) {}
        }
    )*};
}
nothing_kept! { Aval, Static, At }
