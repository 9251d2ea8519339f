//! The verifier.

use crate::Program;

/// Everything that is wrong with a program, in words; empty when nothing is.
pub fn verify(_program: &Program) -> Vec<String> {
    Vec::new()
}
