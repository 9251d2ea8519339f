//! Checks of functions that hide state from `#[traced]`: each is compared with the same body
//! without the attribute.
//!
//! `tests/generator_adversary` writes the functions, `tests/fixtures/adversary` compiles them, and
//! this module runs them. Before each call all hidden state is set to the same values for both
//! versions.

mod check;
mod outcome;
pub mod world;

pub use check::{Kind, Report, report};
pub use outcome::{Outcome, list, with_leaves};

use gradloom::Tensor;

/// A call of a function with a list of leaves and a choice of static arguments.
pub type Call = fn(&[Tensor], usize) -> Box<dyn Outcome>;

/// Computes the result of `vjp`, and the cotangents of the leaves for cotangents of the result.
pub type Vjp = fn(&[Tensor], usize, &[Tensor]) -> (Box<dyn Outcome>, Vec<Tensor>);

/// Computes the result of `jvp` and its tangents, for tangents of the leaves.
pub type Jvp = fn(&[Tensor], usize, &[Tensor]) -> (Box<dyn Outcome>, Vec<Tensor>);

/// Computes value and gradient of a function with a scalar result.
pub type Gradient = fn(&[Tensor], usize) -> (Tensor, Vec<Tensor>);

/// Side effect of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The function only computes.
    None,
    /// It reads values of tensors.
    Reads,
    /// It reads and writes hidden state, visibly in its text.
    Hidden,
    /// It reads and writes hidden state through a value, which only the type of that value shows.
    Typed,
    /// It has an effect that the analysis assumes away: `caching-and-purity.md` lists the assumptions.
    Granted,
}

/// A function, with and without the attribute.
pub struct Case {
    /// Module of the function.
    pub name: &'static str,
    /// Its parts, each as class and name.
    pub parts: &'static [&'static str],
    /// Source text of the items and the function, with the attribute.
    pub source: &'static str,
    /// Side effect.
    pub effect: Effect,
    /// Number of leaves of the arguments, each of shape `[3]`.
    pub leaves: usize,
    /// The constant `RECORDED`.
    pub recorded: Option<&'static str>,
    /// The constant `HASH`.
    pub hash: [u8; 32],
    /// `HASH` and source text of the twin, which differs in one literal.
    pub twin: Option<([u8; 32], &'static str)>,
    /// The function without the attribute.
    pub plain: Call,
    /// The traced function.
    pub traced: Call,
    /// The function under `#[traced(record)]`.
    pub record: Option<Call>,
    /// The companion `vjp`.
    pub vjp: Vjp,
    /// The companion `jvp`.
    pub jvp: Jvp,
    /// The companion `value_and_grad`, if the result has rank 0.
    pub gradient: Option<Gradient>,
}
