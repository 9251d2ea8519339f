//! Costs of a function and of its pullback.

use gradloom_ir::ad::Vjp;
use gradloom_ir::{Cost, Poly, Program, Var, cost, pass};
use std::collections::BTreeSet;

/// Costs of a function and of its pullback.
pub(crate) struct Costs {
    pub(crate) value: Cost,
    pub(crate) pullback: Cost,
    /// Bytes of the residuals.
    pub(crate) saved: Option<Poly>,
    /// Number of residuals that only the derivative computes.
    pub(crate) derived: usize,
}

impl Costs {
    /// Returns the costs of a program and of its derivative.
    pub(crate) fn new(program: &Program, vjp: &Vjp) -> Costs {
        let bytes = |v| cost::bytes(vjp.primal.aval(v));
        Costs {
            value: cost::of_program(&pass::simplify(program.clone())),
            pullback: cost::of_program(&vjp.pullback),
            derived: residuals(vjp).count() - residual_vars(program, vjp).len(),
            saved: residuals(vjp).try_fold(Poly::ZERO, |sum, v| sum.plus(&bytes(v)?)),
        }
    }
}

/// Returns the variables of `program` whose values are residuals.
///
/// Residuals that only the derivative computes are left out: their numbers may clash with variables
/// in other blocks.
pub(crate) fn residual_vars(program: &Program, vjp: &Vjp) -> Vec<Var> {
    let bound = program.eqns.iter().flat_map(|e| &e.outs);
    let bound: BTreeSet<Var> = program.params.iter().chain(bound).copied().collect();
    residuals(vjp).filter(|v| bound.contains(v)).collect()
}

fn residuals(vjp: &Vjp) -> impl Iterator<Item = Var> {
    let residuals = vjp.primal.outs[vjp.n_outs..].iter().zip(&vjp.shape_only);
    residuals
        .filter(|(_, shape_only)| !**shape_only)
        .map(|(v, _)| *v)
}
