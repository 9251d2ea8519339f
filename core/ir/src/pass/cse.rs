//! Common subexpression elimination.

use crate::{Attr, Op, Program, SecondaryMap, Static, Var};
use std::collections::BTreeMap;

/// Binds equal equations once. Two static arguments are equal when they are the same entry of the table, or
/// equal known values: two host expressions of equal text may differ in value.
pub fn cse(program: &Program) -> Program {
    // The number of results is a part of what `split` computes.
    type Key = (Op, usize, Vec<Attr>, Vec<Var>);
    let mut first: BTreeMap<Key, Vec<Var>> = BTreeMap::new();
    let mut to: SecondaryMap<Var, Var> = SecondaryMap::new();
    let mut eqns = Vec::new();
    let mut names = program.names.clone();
    let mut pins = program.pins.clone();
    for eqn in &program.eqns {
        let mut eqn = eqn.clone();
        for arg in &mut eqn.args {
            *arg = to.get(*arg).copied().unwrap_or(*arg);
        }
        if Op::CALLS.contains(&eqn.op) {
            eqns.push(eqn);
            continue;
        }
        let attrs = eqn
            .attrs
            .iter()
            .map(|a| representative(&program.attrs, *a))
            .collect();
        let n_outs = eqn.outs.len();
        match first.get(&(eqn.op, n_outs, attrs, eqn.args.clone())) {
            Some(outs) => {
                for (&out, &kept) in eqn.outs.iter().zip(outs) {
                    to.insert(out, kept);
                    // The user's name survives where the kept variable has none.
                    if !names.contains(kept)
                        && let Some(name) = names.remove(out)
                    {
                        names.insert(kept, name);
                    }
                    if !pins.contains(kept)
                        && let Some(pin) = pins.remove(out)
                    {
                        pins.insert(kept, pin);
                    }
                }
            }
            None => {
                let attrs = eqn
                    .attrs
                    .iter()
                    .map(|a| representative(&program.attrs, *a))
                    .collect();
                first.insert((eqn.op, n_outs, attrs, eqn.args.clone()), eqn.outs.clone());
                eqns.push(eqn);
            }
        }
    }
    let outs = program
        .outs
        .iter()
        .map(|v| to.get(*v).copied().unwrap_or(*v))
        .collect();
    Program {
        eqns,
        outs,
        names,
        pins,
        ..program.clone()
    }
}

/// The first entry with the same known value.
fn representative(attrs: &[Static], attr: Attr) -> Attr {
    let value = &attrs[attr.0 as usize];
    if value.is_host() {
        return attr;
    }
    Attr(
        attrs
            .iter()
            .position(|a| a == value)
            .expect("the entry itself is equal") as u32,
    )
}
