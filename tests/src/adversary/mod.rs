//! Checks of functions that hide state from `#[traced]`: each is compared with the same body without the attribute.
//!
//! `tests/generator_adversary` writes the functions, `tests/fixtures/adversary` compiles them, and this module runs them. Between
//! calls all hidden state changes, in the same way for both.

mod check;
mod outcome;
pub mod world;

pub use check::{Kind, Report, report};
pub use outcome::{Outcome, list, with_leaves};

use gradloom::Tensor;

/// A call of a function on a list of leaves, with a choice of static arguments.
pub type Call = fn(&[Tensor], usize) -> Box<dyn Outcome>;

/// The result of `vjp`, and the cotangents of the leaves for a list of cotangents of the result.
pub type Vjp = fn(&[Tensor], usize, &[Tensor]) -> (Box<dyn Outcome>, Vec<Tensor>);

/// The result of `jvp`, and its tangents for a list of tangents of the leaves.
pub type Jvp = fn(&[Tensor], usize, &[Tensor]) -> (Box<dyn Outcome>, Vec<Tensor>);

/// The value and the gradient of a function of rank 0.
pub type Gradient = fn(&[Tensor], usize) -> (Tensor, Vec<Tensor>);

/// What a function does besides computing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// It reads values of tensors.
    Reads,
    /// It reads and writes hidden state, which its text shows.
    Hidden,
    /// It reads and writes hidden state through a value whose type alone tells.
    Typed,
    /// It has an effect that the analysis assumes away: `caching-and-purity.md` lists the assumptions.
    Granted,
}

/// A function, with and without the attribute.
pub struct Case {
    /// The module of the function.
    pub name: &'static str,
    /// What it is made of: a class and a name each.
    pub parts: &'static [&'static str],
    /// The items and the function, with the attribute.
    pub source: &'static str,
    /// What it does besides computing.
    pub effect: Effect,
    /// Number of leaves of the arguments, each of shape `[3]`.
    pub leaves: usize,
    /// The constant `RECORDED`.
    pub recorded: Option<&'static str>,
    /// The constant `HASH`.
    pub hash: [u8; 32],
    /// `HASH` and text of a function with another literal.
    pub twin: Option<([u8; 32], &'static str)>,
    /// The function without the attribute.
    pub plain: Call,
    /// The traced function.
    pub traced: Call,
    /// The function under `#[traced(record)]`.
    pub record: Option<Call>,
    /// Its companion.
    pub vjp: Vjp,
    /// Its companion.
    pub jvp: Jvp,
    /// Its companion, where the result has rank 0.
    pub gradient: Option<Gradient>,
}
