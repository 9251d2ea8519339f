//! Sizes of residuals.

use crate::__private::{List, Step};
use crate::call::companion_pullback::{CompanionPullback, LeafCotangents, Residuals};
use crate::call::leaf_range::LeafRange;
use crate::observe::in_backward;
use crate::raise::expect;
use crate::tensor::batch_prefix::alike;
use crate::tree::leaves;
use crate::{Aval, Tensor, Tree, check};
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
    /// Calls `f` with each tensor of the field.
    fn visit(&self, _f: &mut dyn FnMut(&Tensor)) {}
    /// Calls `f` with each tensor of the field, which it may replace.
    fn visit_mut(&mut self, _f: &mut dyn FnMut(&mut Tensor)) {}
}

/// Appends the path of each tensor of a field.
pub fn residual_paths(
    residual: &impl Residual,
    prefix: &str,
    field: &'static str,
    out: &mut Vec<String>,
) {
    let mut n = 0;
    residual.visit(&mut |_| n += 1);
    match n {
        1 => out.push(format!("{prefix}.{field}")),
        n => out.extend((0..n).map(|i| format!("{prefix}.{field}[{i}]"))),
    }
}

/// Cotangents of the arguments of a traced function, as the `pullback` of its residuals returns them.
///
/// ```
/// use gradloom::prelude::*;
///
/// #[traced]
/// fn scaled(x: &Tensor, w: &Tensor) -> Tensor {
///     (x * w).sin()
/// }
///
/// let (x, w) = (Tensor::from([0.0f64, 1.0]), Tensor::from([2.0f64, 0.0]));
/// let (y, saved) = scaled::saved(&x, &w);
/// evaluate((&y, &saved))?; // the residuals are a tree, and may be sent to another thread
/// let ct = std::thread::spawn(move || saved.pullback(&Tensor::from([1.0f64, 1.0]))).join().unwrap();
/// assert_eq!(ct.tensor(0).unwrap().to_vec::<f64>(), [2.0, 0.0]);
/// assert_eq!(ct.tensor(1).unwrap().to_vec::<f64>(), [0.0, 1.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SavedCotangents(LeafCotangents);

impl SavedCotangents {
    /// Returns the cotangents of the leaves of a parameter, in order. `None`, or no entry, stands for zero.
    ///
    /// # Panics
    ///
    /// If the function has fewer parameters.
    pub fn leaves(&self, param: usize) -> &[Option<Tensor>] {
        self.0.leaves(param)
    }

    /// Returns the cotangent of a parameter that is a tensor, or `None` if it is zero.
    ///
    /// # Panics
    ///
    /// If the function has fewer parameters.
    pub fn tensor(&self, param: usize) -> Option<&Tensor> {
        self.leaves(param).first()?.as_ref()
    }
}

/// Calls the pullback of a struct of residuals with the leaves of a cotangent of a result with these avals.
#[track_caller]
pub fn pull_saved(
    ct: &impl Tree,
    result: &[Aval],
    pull: impl FnOnce(&[Option<Tensor>]) -> LeafCotangents,
) -> SavedCotangents {
    let given = leaves(ct);
    expect(check::beside(
        "cotangent",
        ct,
        "result",
        &given,
        check::cotangents(result),
    ));
    let given: Vec<Option<Tensor>> = given.into_iter().map(Some).collect();
    let alike = alike(&given);
    SavedCotangents(in_backward(|| pull(alike.as_ref().unwrap_or(&given))))
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
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        f(self);
    }
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        f(self);
    }
}

impl<const N: usize> Residual for [LeafRange; N] {
    fn keep(&self, _: &mut ResidualBytes) {}
}

impl<T: Residual + Clone> Residual for List<T> {
    fn keep(&self, total: &mut ResidualBytes) {
        self.iter().for_each(|part| part.keep(total));
    }
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.iter().for_each(|part| part.visit(f));
    }
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        let mut parts = self.to_vec();
        parts.iter_mut().for_each(|part| part.visit_mut(f));
        *self = parts.into();
    }
}

impl Residual for CompanionPullback {
    fn keep(&self, total: &mut ResidualBytes) {
        total.bytes += self.bytes;
    }
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        Residuals::visit(self, f);
    }
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        *self = Residuals::map(self, &mut |x| {
            let mut x = x.clone();
            f(&mut x);
            x
        });
    }
}

impl Residual for Vec<Step> {
    fn keep(&self, total: &mut ResidualBytes) {
        for step in self {
            step.tensors().keep(total);
            step.calls().keep(total);
        }
    }
    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        for step in self {
            step.tensors().visit(f);
            step.calls().visit(f);
        }
    }
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Tensor)) {
        for step in self {
            step.tensors_mut().visit_mut(f);
            step.calls_mut().visit_mut(f);
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
