//! Passes. Each maps a program to a program and changes no bit of any result.

mod cover;
mod cse;
mod cut;
mod dce;
mod decompose;
mod fold;
mod fuse;
mod residuals;
mod signature;

pub use cover::{Pattern, Patterns, Piece, Values, cover};
pub use cse::cse;
pub use dce::dce;
pub use decompose::decompose;
pub use fold::fold;
pub use fuse::{fuse, may_fail};
pub use residuals::choose_residuals;
pub use signature::{Arg, Group, constants};

use crate::Program;

/// Runs dead code elimination, folding and common subexpression elimination.
pub fn simplify(program: Program) -> Program {
    // Dead equations would only slow down the other passes.
    let program = dce(program);
    // Folding makes more equations equal, so it runs before `cse`.
    let program = fold(program);
    // Merging equations can leave constants unused, so `dce` runs again.
    let program = cse(program);
    dce(program)
}
