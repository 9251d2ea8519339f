//! The verifier: what has to be true of every program.
//!
//! 1. A variable is bound once, by a parameter or an equation, and read only after it is bound.
//! 2. An equation binds at least one variable, and as many as its op has results.
//! 3. It has as many operands as its op reads and as many static arguments as its op takes, and these are
//!    entries of the table.
//! 4. Its op takes the operands: the shape rule and the dtype rule do not refuse them. A like operand has the shape of
//!    what it stands for.
//! 5. What is known of its results is not at odds with what the rules infer. To know less is no fault.
//! 6. Every result of the program is bound, and its parameters have no more axes and elements than can be addressed.
//! 7. Names are unique, and the text form reads each as a name.
//!
//! Every pass and every transform keeps these; tests verify each result.

use crate::op::shape::check_size;
use crate::{Aval, Dim, Eqn, Program, SecondaryMap, Static, Var, text};

/// Everything that is wrong with a program, in words; empty when nothing is.
///
/// All faults are reported, each with the equation it is in.
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

/// Points 2 to 5, for an equation whose operands are bound.
fn rules(program: &Program, eqn: &Eqn, fault: &mut impl FnMut(String)) {
    let def = eqn.op.def();
    if eqn.outs.is_empty() {
        return fault("it binds nothing".to_owned());
    }
    let mut well_formed = true;
    if !def.operands().fits(eqn.args.len()) {
        well_formed = false;
        fault(format!("it has {} operands", eqn.args.len()));
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
                    fault(format!("`{out}` is {inferred} by the rules, not {found}"));
                }
            }
        }
    }
}

/// Whether two avals of one value say different things.
fn at_odds(a: &Aval, b: &Aval) -> bool {
    let dtypes = a.dtype.is_some() && b.dtype.is_some() && a.dtype != b.dtype;
    // Two names may stand for one number.
    let dims = |a: &Dim, b: &Dim| a.differs(*b);
    let shapes = match (a.shape.dims(), b.shape.dims()) {
        (Some(a), Some(b)) => a.len() != b.len() || a.iter().zip(b).any(|(a, b)| dims(a, b)),
        _ => false,
    };
    dtypes || shapes
}

/// Point 7.
fn names(program: &Program, faults: &mut Vec<String>) {
    let mut seen: Vec<(&str, Var)> = Vec::new();
    for (var, name) in program.names.iter() {
        if !text::is_name(name) {
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
