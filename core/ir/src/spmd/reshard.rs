//! Resharding: the steps that lead from one layout of a value to another, and what they send.
//!
//! Parts of a dim of length `n` in `k` parts have `n / k` elements, rounded up, so the last parts are
//! shorter. If a dim in `k` parts is cut further into `k m` parts, the cuts meet those before only if
//! `m` small parts are as long as a large one, or `k` is 1. Otherwise the dim is gathered first.

use super::grid::{Atom, Grid, Layout};
use crate::sharding::Reduction;

/// A step from one layout to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Each device keeps a part of what it has. Nothing is sent.
    Slice { dim: usize, atoms: Vec<Atom> },
    /// The parts of a dim along its last atoms are joined.
    AllGather { dim: usize, atoms: Vec<Atom> },
    /// The last atom of the dim `from` becomes the last atom of the dim `to`.
    AllToAll { from: usize, to: usize, atom: Atom },
    /// The values along the atoms are reduced.
    AllReduce { kind: Reduction, atoms: Vec<Atom> },
    /// The values along an atom are added up, and each device keeps a part of the sum.
    ReduceScatter { dim: usize, atom: Atom },
    /// The first device along the atoms keeps the value, and the others have zeros, so the value is the sum. Nothing is
    /// sent.
    KeepOnFirst { atoms: Vec<Atom> },
}

/// Steps between two layouts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// Each step with the layout that it leads to.
    pub(super) steps: Vec<(Step, Layout)>,
    /// The bytes that a device sends.
    pub(super) sent: u128,
}

impl Step {
    /// Returns the atoms along which devices exchange data.
    pub(super) fn over(&self) -> &[Atom] {
        match self {
            Step::Slice { .. } | Step::KeepOnFirst { .. } => &[],
            Step::AllGather { atoms, .. } | Step::AllReduce { atoms, .. } => atoms,
            Step::AllToAll { atom, .. } | Step::ReduceScatter { atom, .. } => {
                std::slice::from_ref(atom)
            }
        }
    }

    /// Returns the name of the collective, or `None` if nothing is sent.
    pub(super) fn name(&self) -> Option<&'static str> {
        match self {
            Step::Slice { .. } | Step::KeepOnFirst { .. } => None,
            Step::AllGather { .. } => Some("all_gather"),
            Step::AllToAll { .. } => Some("all_to_all"),
            Step::AllReduce { .. } => Some("all_reduce"),
            Step::ReduceScatter { .. } => Some("reduce_scatter"),
        }
    }

    /// Returns the bytes that each of `n` devices in a ring sends, if it has `bytes` before the step.
    ///
    /// These are the costs of the bandwidth-optimal algorithms in Chan, Heimlich, Purkayastha and van
    /// de Geijn: Collective communication: theory, practice, and experience (2007).
    pub(super) fn sent(&self, bytes: u128, n: u128) -> u128 {
        let part = bytes.div_ceil(n);
        match self {
            Step::Slice { .. } | Step::KeepOnFirst { .. } => 0,
            Step::AllGather { .. } => (n - 1) * bytes,
            Step::AllToAll { .. } | Step::ReduceScatter { .. } => (n - 1) * part,
            Step::AllReduce { .. } => 2 * (n - 1) * part,
        }
    }
}

/// Returns the number of bytes of the part of a device.
pub(super) fn local_bytes(grid: &Grid, shape: &[usize], size: usize, layout: &Layout) -> u128 {
    let lens = grid.local(shape, layout).into_iter();
    lens.map(|len| len as u128).product::<u128>() * size as u128
}

/// Returns the steps from one layout to another of a value with elements of `size` bytes.
///
/// Steps that shrink the value come first, and those that make it larger last. Where `to` is partial and `from` is not,
/// the reduction is a sum.
pub(super) fn path(grid: &Grid, shape: &[usize], size: usize, from: &Layout, to: &Layout) -> Path {
    let mut walk = Walk {
        grid,
        shape,
        size,
        at: from.clone(),
        to,
        path: Path {
            steps: Vec::new(),
            sent: 0,
        },
    };
    while walk.at != *to {
        let is_done = walk.shrink() || walk.reduce() || walk.gather() || walk.keep();
        assert!(is_done, "a value can be gathered and then sliced");
    }
    walk.path
}

struct Walk<'a> {
    grid: &'a Grid,
    shape: &'a [usize],
    size: usize,
    at: Layout,
    to: &'a Layout,
    path: Path,
}

impl Walk<'_> {
    fn step(&mut self, step: Step, to: Layout) -> bool {
        let before = local_bytes(self.grid, self.shape, self.size, &self.at);
        let n = self.grid.n_parts(step.over()) as u128;
        self.path.sent += step.sent(before, n);
        // Neighbouring steps of one kind are one.
        match (self.path.steps.last_mut(), &step) {
            (
                Some((Step::AllGather { dim, atoms }, last)),
                Step::AllGather {
                    dim: other,
                    atoms: outer,
                },
            ) if dim == other => {
                atoms.splice(0..0, outer.iter().copied());
                *last = to.clone();
            }
            _ => self.path.steps.push((step, to.clone())),
        }
        self.at = to;
        true
    }

    /// Returns whether the cuts of a dim along `outer` are also cuts along `all`, which starts with it.
    fn is_aligned(&self, dim: usize, outer: &[Atom], all: &[Atom]) -> bool {
        let (k, n) = (self.grid.n_parts(outer), self.grid.n_parts(all));
        let len = self.shape[dim];
        k == 1 || len.div_ceil(n) * (n / k) == len.div_ceil(k)
    }

    /// Returns the atoms that are to be added to a dim whose atoms are all right.
    fn missing(&self, dim: usize) -> &[Atom] {
        let (at, to) = (&self.at.dims[dim], &self.to.dims[dim]);
        match to.starts_with(at) {
            true => &to[at.len()..],
            false => &[],
        }
    }

    /// Returns whether a dim can be cut further along `atoms`, and from there to the end.
    fn can_cut(&self, dim: usize, atoms: &[Atom]) -> bool {
        let at = &self.at.dims[dim];
        let next = [at, atoms].concat();
        self.is_aligned(dim, at, &next) && self.is_aligned(dim, &next, &self.to.dims[dim])
    }

    /// Does a step after which devices have less, or as much.
    fn shrink(&mut self) -> bool {
        self.slice() || self.scatter() || self.swap()
    }

    fn slice(&mut self) -> bool {
        for dim in 0..self.at.dims.len() {
            let missing = self.missing(dim);
            let free = missing.iter().take_while(|atom| !self.at.uses(**atom));
            let mut n = free.count();
            while n > 0 && !self.can_cut(dim, &missing[..n]) {
                n -= 1;
            }
            if n > 0 {
                let atoms = missing[..n].to_vec();
                let mut next = self.at.clone();
                next.dims[dim].extend(&atoms);
                return self.step(Step::Slice { dim, atoms }, next);
            }
        }
        false
    }

    fn scatter(&mut self) -> bool {
        for dim in 0..self.at.dims.len() {
            let Some(&atom) = self.missing(dim).first() else {
                continue;
            };
            if self.at.partial.contains(&(atom, Reduction::Sum)) && self.can_cut(dim, &[atom]) {
                let mut next = self.at.clone();
                next.partial.retain(|(partial, _)| *partial != atom);
                next.dims[dim].push(atom);
                return self.step(Step::ReduceScatter { dim, atom }, next);
            }
        }
        false
    }

    fn swap(&mut self) -> bool {
        let dims = 0..self.at.dims.len();
        for to in dims.clone() {
            let Some(&atom) = self.missing(to).first() else {
                continue;
            };
            for from in dims.clone() {
                let [rest @ .., last] = &self.at.dims[from][..] else {
                    continue;
                };
                let is_wanted = self.to.dims[from].starts_with(&self.at.dims[from]);
                if *last == atom
                    && !is_wanted
                    && self.is_aligned(from, rest, &self.at.dims[from])
                    && self.can_cut(to, &[atom])
                {
                    let mut next = self.at.clone();
                    next.dims[from].pop();
                    next.dims[to].push(atom);
                    return self.step(Step::AllToAll { from, to, atom }, next);
                }
            }
        }
        false
    }

    /// Reduces the value along the atoms of one kind.
    fn reduce(&mut self) -> bool {
        let left = |partial: &&(Atom, Reduction)| !self.to.partial.contains(*partial);
        let Some(&(_, kind)) = self.at.partial.iter().find(left) else {
            return false;
        };
        let of_kind = self.at.partial.iter().filter(left);
        let of_kind = of_kind.filter(|(_, other)| *other == kind);
        let atoms: Vec<Atom> = of_kind.map(|(atom, _)| *atom).collect();
        let mut next = self.at.clone();
        next.partial.retain(|(atom, _)| !atoms.contains(atom));
        self.step(Step::AllReduce { kind, atoms }, next)
    }

    /// Makes the value a sum along the atoms that are missing.
    fn keep(&mut self) -> bool {
        let missing = self.to.partial.iter();
        let missing = missing.filter(|partial| !self.at.partial.contains(*partial));
        let atoms: Vec<Atom> = missing.map(|(atom, _)| *atom).collect();
        let next = self.to.clone();
        !atoms.is_empty() && self.step(Step::KeepOnFirst { atoms }, next)
    }

    /// Joins the parts of a dim: of one whose atoms are others in the end, if there is one.
    fn gather(&mut self) -> bool {
        let dims = 0..self.at.dims.len();
        let is_wrong = |dim: &usize| !self.to.dims[*dim].starts_with(&self.at.dims[*dim]);
        // The other dims cannot be cut where they are.
        let is_stuck = |dim: &usize| {
            !self.at.dims[*dim].is_empty() && self.at.dims[*dim] != self.to.dims[*dim]
        };
        let found = dims.clone().find(is_wrong);
        let Some(dim) = found.or_else(|| dims.clone().find(is_stuck)) else {
            return false;
        };
        let (at, to) = (&self.at.dims[dim], &self.to.dims[dim]);
        let n_common = at.iter().zip(to).take_while(|(a, b)| a == b).count();
        let fits = n_common < at.len() && self.is_aligned(dim, &at[..n_common], at);
        let kept = if fits { n_common } else { 0 };
        let atoms = at[kept..].to_vec();
        let mut next = self.at.clone();
        next.dims[dim].truncate(kept);
        self.step(Step::AllGather { dim, atoms }, next)
    }
}
