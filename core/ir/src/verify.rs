//! The verifier, which checks the invariants of programs.
//!
//! 1. A variable is bound once, by a parameter or an equation, and read only after that.
//! 2. An equation binds at least one variable, and as many as its op has results.
//! 3. An equation has as many operands and static arguments as its op takes, and its static
//!    arguments are entries of the table.
//! 4. The shape rule and the dtype rule of the op accept the operands. A like operand has the shape
//!    of the value it stands for.
//! 5. The avals of the results do not contradict the avals that the rules infer. They may say less.
//! 6. Each result of the program is bound. Its parameters have at most as many axes and elements as
//!    can be addressed.
//! 7. Names are unique, and the text form reads each as a name.
//!
//! These hold for the programs that an op runs, too.
//!
//! Every pass and every transform maintains these invariants; tests verify each result.

use crate::entity::is_name;
use crate::op::shape::check_size;
use crate::{Aval, Dim, Eqn, Program, SecondaryMap, Static, Var};

/// Returns all violations of the invariants, each with its equation. Empty if the program is valid.
pub fn verify(program: &Program) -> Vec<String> {
    let mut faults = Vec::new();
    let mut bound: SecondaryMap<Var, ()> = SecondaryMap::new();
    for &param in &program.params {
        if bound.insert(param, ()).is_some() {
            faults.push(format!(
                "the parameter `{}` is bound twice",
                program.show(param)
            ));
        }
        if let Err(fault) = check_size(&program.aval(param).shape) {
            faults.push(format!("the parameter `{}`: {fault}", program.show(param)));
        }
    }
    let ever_bound: SecondaryMap<Var, ()> = program
        .params
        .iter()
        .chain(program.eqns.iter().flat_map(|e| &e.outs))
        .map(|v| (*v, ()))
        .collect();
    for eqn in &program.eqns {
        let mut fault = |what: String| {
            faults.push(format!("`{}`: {what}", program.show_eqn(eqn)));
        };
        let mut args_bound = true;
        for &arg in &eqn.args {
            if !bound.contains(arg) {
                args_bound = false;
                let arg_name = program.show(arg);
                fault(if ever_bound.contains(arg) {
                    format!("`{arg_name}` is read before it is bound")
                } else {
                    format!("`{arg_name}` is never bound")
                });
            }
        }
        if args_bound {
            rules(program, eqn, &mut fault);
        }
        for &out in &eqn.outs {
            if bound.insert(out, ()).is_some() {
                fault(format!("`{}` is bound twice", program.show(out)));
            }
        }
    }
    for &out in &program.outs {
        if !bound.contains(out) {
            faults.push(format!("the result `{}` is never bound", program.show(out)));
        }
    }
    names(program, &mut faults);
    faults
}

/// Checks invariants 2 to 5 for an equation whose operands are bound.
fn rules(program: &Program, eqn: &Eqn, fault: &mut impl FnMut(String)) {
    let def = eqn.op.def();
    if eqn.outs.is_empty() {
        return fault("it binds nothing".to_owned());
    }
    let mut well_formed = true;
    if !def.operands().fits(eqn.args.len()) {
        well_formed = false;
        fault(format!(
            "it has the wrong number of operands: {}",
            eqn.args.len()
        ));
    }
    if eqn.attrs.len() != def.statics().len() {
        well_formed = false;
        let (found, expected) = (eqn.attrs.len(), def.statics().len());
        fault(format!(
            "it has {found} static arguments instead of {expected}"
        ));
    }
    for attr in &eqn.attrs {
        if program.attrs.get(attr.0 as usize).is_none() {
            well_formed = false;
            fault(format!("there is no static argument `{attr}`"));
        }
    }
    if !well_formed {
        return;
    }
    let statics: Vec<Static> = eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect();
    let inner: Vec<String> = statics
        .iter()
        .filter_map(Static::programs)
        .flatten()
        .flat_map(verify)
        .collect();
    if !inner.is_empty() {
        return inner.into_iter().for_each(fault);
    }
    let args: Vec<&Aval> = eqn.args.iter().map(|v| program.aval(*v)).collect();
    match eqn.op.infer(&statics, &args, eqn.outs.len()) {
        Err(refused) => fault(refused.to_string()),
        Ok(inferred) if inferred.len() != eqn.outs.len() => {
            let (found, expected) = (eqn.outs.len(), inferred.len());
            fault(format!("it binds {found} variables instead of {expected}"));
        }
        Ok(inferred) => {
            for (&out, inferred) in eqn.outs.iter().zip(&inferred) {
                let found = program.aval(out);
                if at_odds(found, inferred) {
                    let out = program.show(out);
                    fault(format!(
                        "`{out}` is declared {found}, but the rules infer {inferred}"
                    ));
                }
            }
        }
    }
}

/// Returns whether two avals of one value contradict each other.
fn at_odds(a: &Aval, b: &Aval) -> bool {
    let dtypes = a.dtype.is_some() && b.dtype.is_some() && a.dtype != b.dtype;
    // Two different names may be equal numbers.
    let dims = |a: &Dim, b: &Dim| a.differs(*b);
    let shapes = match (a.shape.dims(), b.shape.dims()) {
        (Some(a), Some(b)) => a.len() != b.len() || a.iter().zip(b).any(|(a, b)| dims(a, b)),
        _ => false,
    };
    dtypes || shapes
}

/// Checks invariant 7.
fn names(program: &Program, faults: &mut Vec<String>) {
    let mut seen: Vec<(&str, Var)> = Vec::new();
    for (var, name) in program.names.iter() {
        if !is_name(name) {
            faults.push(format!(
                "`{name}`, the name of {var}, does not read as a name"
            ));
        }
        seen.push((name, var));
    }
    seen.sort_unstable();
    for pair in seen.windows(2) {
        if pair[0].0 == pair[1].0 {
            let (name, first, second) = (pair[0].0, pair[0].1, pair[1].1);
            faults.push(format!("`{name}` is the name of {first} and of {second}"));
        }
    }
}
