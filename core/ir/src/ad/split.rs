//! Partial evaluation: what depends on the tangents is cut off from what does not.

use crate::{Program, SecondaryMap, Var};

/// A program in two parts.
#[derive(Clone, Debug)]
pub struct Split {
    /// `x... -> known outs..., residuals...`.
    pub known: Program,
    /// `residuals..., dx... -> unknown outs...`; every equation in it is linear in the tangents.
    pub linear: Program,
    /// What the linear part reads of the known part.
    pub residuals: Vec<Var>,
}

/// Splits `program`, of whose parameters the first `n_known` are known and of whose results the first
/// `n_known_outs` do not depend on the others.
pub fn split(program: &Program, n_known: usize, n_known_outs: usize) -> Split {
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
    // In the order in which the known part binds them: the order in which a reader meets their names.
    residuals.sort_unstable();
    let outs = known_outs.iter().chain(&residuals).copied().collect();
    let known = part(program, known_params.to_vec(), known_eqns, outs);
    let params = residuals.iter().chain(tangents).copied().collect();
    let linear = Program { params, ..linear };
    Split {
        known,
        linear,
        residuals,
    }
}

/// Which of the first `n` parameters are read as `Like` operands only.
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
        pins: of.pins.clone(),
    }
}
