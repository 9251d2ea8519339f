//! Partial evaluation: separates the equations that depend on tangents from the rest.

use crate::{Program, SecondaryMap, Var};

/// A program split in two parts.
#[derive(Clone, Debug)]
pub struct SplitProgram {
    /// The program `x... -> known outs..., residuals...`.
    pub known: Program,
    /// The program `residuals..., dx... -> unknown outs...`, which is linear in the tangents.
    pub linear: Program,
    /// The values of the known part that the linear part reads.
    pub residuals: Vec<Var>,
}

/// Splits `program` into a part that depends on its known parameters only, and the rest.
///
/// The first `n_known` parameters are known. The first `n_known_outs` results must not depend on
/// the other parameters.
pub fn split(program: &Program, n_known: usize, n_known_outs: usize) -> SplitProgram {
    let (known_params, tangents) = program.params.split_at(n_known);
    let (known_outs, unknown_outs) = program.outs.split_at(n_known_outs);
    let mut unknown: SecondaryMap<Var, ()> = tangents.iter().map(|v| (*v, ())).collect();
    let (mut known_eqns, mut linear_eqns) = (Vec::new(), Vec::new());
    for eqn in &program.eqns {
        if eqn.data().iter().any(|x| unknown.contains(*x)) {
            for out in &eqn.outs {
                unknown.insert(*out, ());
            }
            linear_eqns.push(eqn.clone());
        } else {
            known_eqns.push(eqn.clone());
        }
    }
    let linear = crate::pass::dce(part(
        program,
        Vec::new(),
        linear_eqns,
        unknown_outs.to_vec(),
    ));
    let mut seen: SecondaryMap<Var, ()> = SecondaryMap::new();
    let mut residuals: Vec<Var> = Vec::new();
    for &arg in linear.eqns.iter().flat_map(|e| &e.args) {
        if !unknown.contains(arg) && seen.insert(arg, ()).is_none() {
            residuals.push(arg);
        }
    }
    // Sort the residuals in the order of their definition, which is how a reader meets their names.
    residuals.sort_unstable();
    let outs = known_outs.iter().chain(&residuals).copied().collect();
    let known = part(program, known_params.to_vec(), known_eqns, outs);
    let params = residuals.iter().chain(tangents).copied().collect();
    let linear = Program { params, ..linear };
    SplitProgram {
        known,
        linear,
        residuals,
    }
}

/// Returns, for each of the first `n` parameters, whether it is only a `Like` operand.
pub(super) fn shape_only(program: &Program, n: usize) -> Vec<bool> {
    let mut read: SecondaryMap<Var, ()> = program.outs.iter().map(|v| (*v, ())).collect();
    for x in program.eqns.iter().flat_map(|e| e.data()) {
        read.insert(*x, ());
    }
    program.params[..n]
        .iter()
        .map(|p| !read.contains(*p))
        .collect()
}

fn part(of: &Program, params: Vec<Var>, eqns: Vec<crate::Eqn>, outs: Vec<Var>) -> Program {
    Program {
        params,
        eqns,
        outs,
        attrs: of.attrs.clone(),
        avals: of.avals.clone(),
        names: of.names.clone(),
        remat_hints: of.remat_hints.clone(),
        lines: of.lines.clone(),
    }
}
