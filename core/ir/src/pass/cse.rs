//! Common subexpression elimination.

use crate::hash::{HashMap, Hasher};
use crate::{Attr, Eqn, Op, Program, SecondaryMap, Static, Var};
use std::hash::{BuildHasher, BuildHasherDefault};

/// Binds equal equations once. Two static arguments are equal when they are the same entry of the table, or
/// equal known values: two host expressions of equal text may differ in value.
pub fn cse(mut program: Program) -> Program {
    let attrs = representatives(&program.attrs);
    let mut first = FirstOf::default();
    let mut to: SecondaryMap<Var, Var> = SecondaryMap::new();
    let mut eqns: Vec<Eqn> = Vec::with_capacity(program.eqns.len());
    for mut eqn in program.eqns {
        for arg in &mut eqn.args {
            *arg = to.get(*arg).copied().unwrap_or(*arg);
        }
        for attr in &mut eqn.attrs {
            *attr = attrs[attr.0 as usize];
        }
        let equal = if Op::CALLS.contains(&eqn.op) {
            None
        } else {
            first.find_or_add(&eqn, &eqns)
        };
        let Some(kept) = equal else {
            eqns.push(eqn);
            continue;
        };
        for (&out, &kept) in eqn.outs.iter().zip(&eqns[kept].outs) {
            to.insert(out, kept);
            // The user's name survives where the kept variable has none.
            if !program.names.contains(kept)
                && let Some(name) = program.names.remove(out)
            {
                program.names.insert(kept, name);
            }
            if !program.pins.contains(kept)
                && let Some(pin) = program.pins.remove(out)
            {
                program.pins.insert(kept, pin);
            }
        }
    }
    for out in &mut program.outs {
        *out = to.get(*out).copied().unwrap_or(*out);
    }
    Program { eqns, ..program }
}

/// The first equation of each kind, by hash. It is looked up and compared in full, never iterated.
#[derive(Default)]
struct FirstOf {
    by_hash: HashMap<u64, usize>,
    hasher: BuildHasherDefault<Hasher>,
}

impl FirstOf {
    /// Where the equation stands in `eqns` that computes what `eqn` does. If there is none, `eqn` is to be the next.
    fn find_or_add(&mut self, eqn: &Eqn, eqns: &[Eqn]) -> Option<usize> {
        // The number of results is a part of what `split` computes.
        let key = |e: &Eqn| (e.op, e.outs.len());
        let mut hash = self.hasher.hash_one((key(eqn), &eqn.attrs, &eqn.args));
        loop {
            match self.by_hash.get(&hash) {
                None => {
                    self.by_hash.insert(hash, eqns.len());
                    return None;
                }
                Some(&i)
                    if key(&eqns[i]) == key(eqn)
                        && eqns[i].attrs == eqn.attrs
                        && eqns[i].args == eqn.args =>
                {
                    return Some(i);
                }
                // Another equation has this hash: the next place is for this one.
                Some(_) => hash = hash.wrapping_add(1),
            }
        }
    }
}

/// For each entry the first with the same known value.
fn representatives(attrs: &[Static]) -> Vec<Attr> {
    let mut first: HashMap<&Static, Attr> = HashMap::default();
    let entries = (0u32..).map(Attr).zip(attrs);
    entries
        .map(|(attr, value)| {
            if value.is_host() {
                attr
            } else {
                *first.entry(value).or_insert(attr)
            }
        })
        .collect()
}
