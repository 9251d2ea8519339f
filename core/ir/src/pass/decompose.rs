//! Decomposition of composite ops.

use crate::{Builder, Eqn, Program, SecondaryMap, Var};

/// Replaces composite ops by primitive ones.
///
/// The results are equal up to rounding: a kernel computes a composite op in other steps. An op that
/// needs a length that is unknown stays.
pub fn decompose(mut program: Program) -> Program {
    // An op may be decomposed into others that are simpler, and are composite themselves.
    let emit = |_, b: &mut Builder, eqn: &Eqn| (eqn.op.def().facts().decompose?)(b, eqn);
    while let Some(simpler) = replace_some(&program, emit) {
        program = simpler;
    }
    program
}

/// Replaces the equations for which `emit` emits others. It is given the index of an equation, and returns the results.
///
/// Returns `None` if there is none.
pub fn replace_some(
    program: &Program,
    emit: impl Fn(usize, &mut Builder, &Eqn) -> Option<Vec<Var>>,
) -> Option<Program> {
    let mut b = Builder::after(program);
    let mut equal: SecondaryMap<Var, Var> = SecondaryMap::new();
    for (at, eqn) in program.eqns.iter().enumerate() {
        b.emit_for(program, eqn);
        let mut eqn = eqn.clone();
        for arg in &mut eqn.args {
            *arg = equal.get(*arg).copied().unwrap_or(*arg);
        }
        match emit(at, &mut b, &eqn) {
            Some(outs) => equal.extend(eqn.outs.iter().copied().zip(outs)),
            None => b.append(eqn),
        }
    }
    equal.iter().next()?;
    let outs = program.outs.iter();
    let outs = outs.map(|v| equal.get(*v).copied().unwrap_or(*v)).collect();
    let mut simpler = b.finish(program.params.clone(), outs);
    // The name and the hint of a result move to the variable that replaces it.
    for (v, by) in equal.iter() {
        if let Some(name) = simpler.names.remove(v) {
            simpler.names.insert(*by, name);
        }
        if let Some(hint) = simpler.remat_hints.remove(v) {
            simpler.remat_hints.insert(*by, hint);
        }
    }
    Some(simpler)
}
