//! Propagation: the atoms that each dim of each variable should be split along.
//!
//! A constraint gives the dims of a parameter, a result or another variable. From there, atoms spread
//! along the factors of equations, forward and backward, until nothing changes. Dims only gain atoms,
//! so this ends. Atoms never spread to closed dims, nor to variables that must stay replicated along
//! them. Where an atom could go to two factors of an equation, it goes to the one along which more
//! bytes are split by it already: these would have to move otherwise.
//!
//! The result is a wish. [`choose`](super::choose) decides how each equation is computed.

use super::factors::Factors;
use super::grid::{Atom, Grid};
use crate::{Eqn, Program, SecondaryMap, Var};

/// Knowledge of propagation about the dims of a variable.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// The atoms that split each dim.
    pub(super) dims: Vec<Vec<Atom>>,
    /// True for each dim that may gain atoms.
    is_open: Vec<bool>,
    /// The priority of each dim.
    priority: Vec<usize>,
    /// Atoms along which the value must stay replicated.
    blocked: Vec<Atom>,
}

impl Wish {
    /// Returns the wish for a variable of this rank without a constraint.
    pub(super) fn free(rank: usize) -> Wish {
        Wish {
            dims: vec![Vec::new(); rank],
            is_open: vec![true; rank],
            priority: vec![0; rank],
            blocked: Vec::new(),
        }
    }

    /// Returns the wish for a variable with a constraint.
    pub(super) fn constrained(grid: &Grid, spec: &crate::sharding::ShardingSpec) -> Wish {
        let dims = spec.dims().iter();
        Wish {
            is_open: dims.clone().map(|dim| dim.is_open).collect(),
            priority: dims.map(|dim| dim.priority.unwrap_or(0)).collect(),
            dims: grid.layout(spec).dims,
            blocked: {
                let replicated = spec.replicated_axes().iter();
                replicated.flat_map(|axis| grid.atoms(*axis)).collect()
            },
        }
    }

    fn can_gain(&self, dim: usize, atom: Atom) -> bool {
        let is_used = self.dims.iter().any(|dim| dim.contains(&atom));
        self.is_open[dim] && !is_used && !self.blocked.contains(&atom)
    }

    /// Adds to a dim what it lacks of `atoms`, and returns whether that is something.
    fn gain(&mut self, dim: usize, atoms: &[Atom]) -> bool {
        let n_before = self.dims[dim].len();
        if !atoms.starts_with(&self.dims[dim]) {
            return false;
        }
        for atom in &atoms[n_before..] {
            // A later atom without this one would cut the dim elsewhere.
            if !self.can_gain(dim, *atom) {
                break;
            }
            self.dims[dim].push(*atom);
        }
        self.dims[dim].len() > n_before
    }
}

/// Spreads the atoms of `wishes` to all variables of a program.
///
/// `factors` has the factors of each equation.
pub(super) fn propagate(
    grid: &Grid,
    program: &Program,
    factors: &[Factors],
    wishes: &mut SecondaryMap<Var, Wish>,
) {
    let priorities = wishes.iter().flat_map(|(_, wish)| wish.priority.iter());
    let mut priorities: Vec<usize> = priorities.copied().collect();
    priorities.push(0);
    priorities.sort_unstable();
    priorities.dedup();
    let eqns: Vec<(&Eqn, &Factors)> = program.eqns.iter().zip(factors).collect();
    for most in priorities {
        loop {
            let mut has_changed = false;
            let there_and_back = eqns.iter().chain(eqns.iter().rev());
            for (eqn, factors) in there_and_back {
                has_changed |= spread(grid, program, eqn, factors, wishes, most);
            }
            if !has_changed {
                break;
            }
        }
    }
}

/// Spreads atoms between the values of an equation, and returns whether a dim gained one.
///
/// Dims whose priority is greater than `most` do not take part.
fn spread(
    grid: &Grid,
    program: &Program,
    eqn: &Eqn,
    factors: &Factors,
    wishes: &mut SecondaryMap<Var, Wish>,
    most: usize,
) -> bool {
    if factors.all.is_empty() {
        return false;
    }
    // The lists of atoms for each factor, with the bytes that they split.
    let mut candidates: Vec<(u128, usize, Vec<Atom>)> = Vec::new();
    for (var, axes) in factors.values(eqn) {
        let Some(wish) = wishes.get(var) else {
            continue;
        };
        for (dim, factor) in axes.iter().enumerate() {
            let Some(factor) = *factor else { continue };
            if wish.priority[dim] > most {
                continue;
            }
            let atoms = factors.fitting(grid, factor, &wish.dims[dim]);
            if atoms.is_empty() {
                continue;
            }
            let bytes = super::bytes_of(program, var);
            let mut known = candidates.iter_mut();
            match known.find(|(_, of, list)| *of == factor && list == atoms) {
                Some((total, _, _)) => *total += bytes,
                None => candidates.push((bytes, factor, atoms.to_vec())),
            }
        }
    }
    // The most bytes first, and among equals the first operand.
    candidates.sort_by_key(|(bytes, _, _)| std::cmp::Reverse(*bytes));
    let mut split: Vec<Vec<Atom>> = vec![Vec::new(); factors.all.len()];
    for (_, factor, atoms) in candidates {
        let mut others = split.iter().enumerate().filter(|(i, _)| *i != factor);
        let is_free = !others.any(|(_, of)| of.iter().any(|atom| atoms.contains(atom)));
        if is_free && atoms.starts_with(&split[factor]) {
            split[factor] = atoms;
        }
    }
    let mut has_changed = false;
    for (var, axes) in factors.values(eqn) {
        let Some(wish) = wishes.get_mut(var) else {
            continue;
        };
        for (dim, factor) in axes.iter().enumerate() {
            let Some(factor) = *factor else { continue };
            if wish.priority[dim] <= most {
                has_changed |= wish.gain(dim, &split[factor]);
            }
        }
    }
    has_changed
}
