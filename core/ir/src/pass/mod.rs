//! The passes. Each is `Program -> Program` and changes no bit of any result.

mod cover;
mod cse;
mod cut;
mod dce;
mod fold;
mod fuse;
mod residuals;
mod signature;

pub use cover::{Pattern, Patterns, Piece, Values, cover};
pub use cse::cse;
pub use dce::dce;
pub use fold::fold;
pub use fuse::{fuse, is_elementwise, is_view, may_fail};
pub use residuals::choose_residuals;
pub use signature::{Arg, Group, constants};

use crate::Program;

/// The passes in order, each where it has most to do.
pub fn simplify(program: Program) -> Program {
    // Without dead equations the others have less to look at.
    let program = dce(program);
    // An equation that folds to an operand makes its readers equal to others.
    let program = fold(program);
    // Equal equations are bound once, which may leave constants that only the others read.
    let program = cse(program);
    dce(program)
}
