//! Common subexpression elimination.

use crate::hash::{HashMap, Hasher};
use crate::{Attr, Eqn, Program, SecondaryMap, Static, Var};
use std::hash::{BuildHasher, BuildHasherDefault};

/// Merges equal equations.
///
/// Two static arguments are equal if they are the same entry of the table or equal known values.
/// Host expressions with equal text may have different values.
pub fn cse(mut program: Program) -> Program {
    let attrs = representatives(&program.attrs);
    let mut first = FirstOccurrences::default();
    first.by_hash.reserve(program.eqns.len());
    let mut to: SecondaryMap<Var, Var> = SecondaryMap::new();
    let mut eqns: Vec<Eqn> = Vec::with_capacity(program.eqns.len());
    for mut eqn in program.eqns {
        for arg in &mut eqn.args {
            *arg = to.get(*arg).copied().unwrap_or(*arg);
        }
        for attr in &mut eqn.attrs {
            *attr = attrs[attr.0 as usize];
        }
        let equal = if eqn.op.is_call() {
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
            // Keep the user's name if the kept variable has none.
            if !program.names.contains(kept)
                && let Some(name) = program.names.remove(out)
            {
                program.names.insert(kept, name);
            }
            if !program.remat_hints.contains(kept)
                && let Some(hint) = program.remat_hints.remove(out)
            {
                program.remat_hints.insert(kept, hint);
            }
        }
    }
    for out in &mut program.outs {
        *out = to.get(*out).copied().unwrap_or(*out);
    }
    Program { eqns, ..program }
}

/// The index of the first equation of each kind, by hash. Compared in full and never iterated.
#[derive(Default)]
struct FirstOccurrences {
    by_hash: HashMap<u64, usize>,
    hasher: BuildHasherDefault<Hasher>,
}

impl FirstOccurrences {
    /// Returns the index in `eqns` of an equation equal to `eqn`.
    ///
    /// If there is none, registers `eqn` under the index `eqns.len()`, where the caller must append
    /// it.
    fn find_or_add(&mut self, eqn: &Eqn, eqns: &[Eqn]) -> Option<usize> {
        // The results of `split` depend on how many there are.
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
                // A collision: the equation of this hash is another one, so probe the next slot.
                Some(_) => hash = hash.wrapping_add(1),
            }
        }
    }
}

/// Returns, for each entry, the first entry with the same known value.
fn representatives(attrs: &[Static]) -> Vec<Attr> {
    let mut first: HashMap<&Static, Attr> = HashMap::default();
    first.reserve(attrs.len());
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
