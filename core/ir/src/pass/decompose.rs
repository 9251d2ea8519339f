//! Decomposition of composite ops.

use crate::{Builder, Program, SecondaryMap, Var};

/// Replaces composite ops by primitive ones.
///
/// The results are equal up to rounding: a kernel computes a composite op in other steps. An op that
/// needs a length that is unknown stays.
pub fn decompose(mut program: Program) -> Program {
    // An op may be decomposed into others that are simpler, and are composite themselves.
    while let Some(simpler) = decompose_some(&program, |_| true) {
        program = simpler;
    }
    program
}

/// Replaces the composite ops of the equations that `is_asked` accepts by index, once.
///
/// Returns `None` if there is none.
pub fn decompose_some(program: &Program, is_asked: impl Fn(usize) -> bool) -> Option<Program> {
    let mut b = Builder::after(program);
    let mut equal: SecondaryMap<Var, Var> = SecondaryMap::new();
    for (at, eqn) in program.eqns.iter().enumerate() {
        b.emit_for(program, eqn);
        let mut eqn = eqn.clone();
        for arg in &mut eqn.args {
            *arg = equal.get(*arg).copied().unwrap_or(*arg);
        }
        let decompose = eqn.op.def().facts().decompose.filter(|_| is_asked(at));
        match decompose.and_then(|decompose| decompose(&mut b, &eqn)) {
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
