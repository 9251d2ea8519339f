//! The choice of how each equation is computed: which factors are split along which atoms.
//!
//! Equations are taken in order. For each one, all ways to split its factors are compared by the
//! bytes that a device sends: to bring the operands into the layouts that this takes, and to bring the
//! results into those that propagation asks for. Among equals, the way with the least work wins.
//!
//! # Partial values
//!
//! If a reduced factor is split, the result is partial. It is reduced where an equation or a
//! constraint needs it whole. An equation passes it on only if it *commutes* with the reduction: if it
//! is linear in the operand and the reduction is a sum, if it only moves elements, or if it never
//! decreases and the reduction is a maximum or minimum. Values that are needed whole somewhere are
//! reduced once, so nothing passes them on.

use super::factors::{AxisFactor, Factors, projected, shape_of};
use super::grid::{Atom, Grid, Layout};
use super::local::LocalEqn;
use super::propagate::Wish;
use super::reshard::{Path, local_bytes, path};
use crate::op::Linearity;
use crate::sharding::Reduction;
use crate::{Eqn, Program, SecondaryMap, Var};

/// A part of a sharded program.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// A variable is brought from one layout into another.
    Move { var: Var, from: Layout, path: Path },
    /// An equation is computed.
    Compute(Computed),
}

/// How an equation is computed.
#[derive(Clone, Debug)]
pub(super) struct Computed {
    /// The index of the equation.
    pub(super) eqn: usize,
    /// The atoms that split each factor.
    pub(super) split: Vec<Vec<Atom>>,
    /// The layout of each data operand.
    pub(super) operands: Vec<Layout>,
    /// The layout of each like operand, of which only the shape counts.
    pub(super) likes: Vec<Layout>,
    /// The layout of each result.
    pub(super) results: Vec<Layout>,
    /// True if operands were gathered because the op has no factors for their axes.
    pub(super) is_gathered: bool,
}

impl Item {
    /// Returns the layout into which a variable is brought.
    pub(super) fn target<'a>(from: &'a Layout, path: &'a Path) -> &'a Layout {
        path.steps.last().map_or(from, |(_, to)| to)
    }
}

/// The layouts in which each variable is available.
pub(super) type Available = SecondaryMap<Var, Vec<Layout>>;

/// The context of the choice.
pub(super) struct Choice<'a> {
    pub(super) grid: &'a Grid,
    pub(super) program: &'a Program,
    pub(super) factors: &'a [Factors],
    pub(super) wishes: &'a SecondaryMap<Var, Wish>,
    pub(super) available: Available,
    pub(super) items: Vec<Item>,
    /// Variables that must be whole for some consumer.
    needed: SecondaryMap<Var, ()>,
}

/// Maximum number of ways to split an equation that are compared. If there are more, the later factors follow wishes.
const MOST_WAYS: usize = 4096;

impl<'a> Choice<'a> {
    pub(super) fn new(
        grid: &'a Grid,
        program: &'a Program,
        factors: &'a [Factors],
        wishes: &'a SecondaryMap<Var, Wish>,
    ) -> Choice<'a> {
        let mut needed = SecondaryMap::new();
        for out in &program.outs {
            needed.insert(*out, ());
        }
        for eqn in &program.eqns {
            for (i, var) in eqn.data().iter().enumerate() {
                if !may_commute(program, eqn, i) {
                    needed.insert(*var, ());
                }
            }
        }
        Choice {
            grid,
            program,
            factors,
            wishes,
            available: SecondaryMap::new(),
            items: Vec::new(),
            needed,
        }
    }

    /// Makes a parameter available.
    pub(super) fn bind(&mut self, var: Var, layout: Layout) {
        self.available.insert(var, vec![layout]);
    }

    /// Returns the layout of a result without a constraint: `wish`, or the one that it is computed in,
    /// if less is sent then.
    pub(super) fn cheaper(&self, var: Var, wish: Layout) -> Layout {
        let own = self.layouts(var)[0].reduced();
        match self.cheapest(var, &wish).0 <= self.cheapest(var, &own).0 {
            true => wish,
            false => own,
        }
    }

    /// Adds that a variable must be whole.
    pub(super) fn need(&mut self, var: Var) {
        self.needed.insert(var, ());
    }

    /// Brings a variable into a layout, by the cheapest way.
    pub(super) fn bring(&mut self, var: Var, to: &Layout) {
        let (_, from) = self.cheapest(var, to);
        let from = self.layouts(var)[from].clone();
        if from == *to {
            return;
        }
        let path = self.path(var, &from, to);
        let added: Vec<Layout> = path.steps.iter().map(|(_, to)| to.clone()).collect();
        let known = self.available.get_mut(var).expect("the variable is bound");
        for layout in added {
            if !known.contains(&layout) {
                known.push(layout);
            }
        }
        self.items.push(Item::Move { var, from, path });
    }

    /// Makes a variable available in one layout only.
    pub(super) fn pin(&mut self, var: Var, to: &Layout) {
        self.bring(var, to);
        self.available.insert(var, vec![to.clone()]);
    }

    fn layouts(&self, var: Var) -> &[Layout] {
        self.available.get(var).expect("the variable is bound")
    }

    fn path(&self, var: Var, from: &Layout, to: &Layout) -> Path {
        let shape = shape_of(self.program, var).expect("all shapes are known");
        path(self.grid, &shape, self.size(var), from, to)
    }

    fn size(&self, var: Var) -> usize {
        let dtype = self.program.aval(var).dtype.expect("all dtypes are known");
        dtype.size()
    }

    /// Returns the fewest bytes to bring a variable into a layout, and the layout to start from.
    fn cheapest(&self, var: Var, to: &Layout) -> (u128, usize) {
        let from = self.layouts(var).iter().enumerate();
        let can_be = |from: &Layout, partial: &(Atom, Reduction)| {
            from.partial.contains(partial) || partial.1 == Reduction::Sum
        };
        let can = from.filter(|(_, from)| to.partial.iter().all(|p| can_be(from, p)));
        let cost = can.map(|(i, from)| (self.path(var, from, to).sent, i));
        cost.min()
            .expect("a value can be brought into each layout that is not partial, but for sums")
    }

    /// Chooses how to compute an equation, and brings its operands into place.
    pub(super) fn compute(&mut self, at: usize) {
        let eqn = &self.program.eqns[at];
        let mut computed = self.best(at);
        let mut is_moved = false;
        for (var, layout) in eqn.data().iter().zip(&computed.operands) {
            is_moved |= !self.layouts(*var).contains(layout);
            self.bring(*var, layout);
        }
        computed.is_gathered = is_moved && self.factors[at].all.is_empty();
        for (var, layout) in eqn.outs.iter().zip(&computed.results) {
            self.available.insert(*var, vec![layout.clone()]);
        }
        self.items.push(Item::Compute(computed));
    }

    /// Returns the best way to compute an equation.
    fn best(&self, at: usize) -> Computed {
        let (eqn, factors) = (&self.program.eqns[at], &self.factors[at]);
        let computed = |way: Way| {
            let likes = factors.likes.iter();
            Computed {
                eqn: at,
                likes: likes.map(|axes| projected(axes, &way.split)).collect(),
                split: way.split,
                operands: way.operands,
                results: way.results,
                is_gathered: false,
            }
        };
        let lists = self.lists(eqn, factors);
        let mut search = Search {
            eqn,
            factors,
            lists: &lists,
            split: vec![Vec::new(); factors.all.len()],
            best: None,
            n_ways: 0,
        };
        self.search(&mut search, 0);
        let (_, way) = search
            .best
            .expect("an equation can be computed on whole operands");
        let found = computed(way);
        if LocalEqn::new(self.grid, self.program, factors, &found).is_some() {
            return found;
        }
        // The op takes only whole operands of these shapes.
        let whole = vec![Vec::new(); factors.all.len()];
        computed(self.plain(factors, &whole))
    }

    /// Returns the lists of atoms to try for each factor.
    ///
    /// The atoms of an axis without a factor can go to any factor: an exchange between dims sends less
    /// than a gather.
    fn lists(&self, eqn: &Eqn, factors: &Factors) -> Vec<Vec<Vec<Atom>>> {
        let mut lists: Vec<Vec<Vec<Atom>>> = vec![Vec::new(); factors.all.len()];
        let mut add = |factor: usize, atoms: &[Atom]| {
            let atoms = factors.fitting(self.grid, factor, atoms);
            if !atoms.is_empty() && !lists[factor].iter().any(|list| list == atoms) {
                lists[factor].push(atoms.to_vec());
            }
        };
        let mut stray: Vec<&[Atom]> = Vec::new();
        for (var, axes) in eqn.data().iter().zip(&factors.operands) {
            for layout in self.layouts(*var) {
                for (factor, atoms) in axes.iter().zip(&layout.dims) {
                    match factor {
                        Some(factor) => add(*factor, atoms),
                        None => stray.push(atoms),
                    }
                }
            }
        }
        for (var, axes) in factors.values(eqn) {
            if let Some(wish) = self.wishes.get(var) {
                for (factor, atoms) in axes.iter().zip(&wish.dims) {
                    factor.iter().for_each(|factor| add(*factor, atoms));
                }
            }
        }
        for atoms in stray {
            for (i, factor) in factors.all.iter().enumerate() {
                if factor.len >= self.grid.n_parts(atoms) {
                    add(i, atoms);
                }
            }
        }
        lists.iter_mut().for_each(|lists| lists.push(Vec::new()));
        lists
    }

    /// Tries all lists for the factors from `at` on.
    fn search(&self, search: &mut Search<'_>, at: usize) {
        if search.n_ways >= MOST_WAYS && search.best.is_some() {
            return;
        }
        let Some(lists) = search.lists.get(at) else {
            search.n_ways += 1;
            for way in self.ways(search.eqn, search.factors, &search.split) {
                let cost = self.cost(search.eqn, &way);
                let best = search.best.as_ref();
                if best.is_none_or(|(least, _)| cost < *least) {
                    search.best = Some((cost, way));
                }
            }
            return;
        };
        for list in lists {
            let is_used = |atom: &Atom| search.split[..at].iter().any(|of| of.contains(atom));
            if !list.iter().any(is_used) {
                search.split[at].clone_from(list);
                self.search(search, at + 1);
            }
        }
        search.split[at].clear();
    }

    /// Returns the way to compute an equation with factors split along these atoms, on operands that
    /// are not partial, unless they are the states of a loop that are so after each turn.
    fn plain(&self, factors: &Factors, split: &[Vec<Atom>]) -> Way {
        let layouts = |values: &[Vec<AxisFactor>]| -> Vec<Layout> {
            values.iter().map(|axes| projected(axes, split)).collect()
        };
        let (mut operands, mut results) = (layouts(&factors.operands), layouts(&factors.results));
        for ((factor, atoms), of) in factors.all.iter().zip(split).zip(&factors.partial) {
            let Some(kind) = factor.reduced else { continue };
            let partial = || atoms.iter().map(|atom| (*atom, kind));
            of.operands
                .iter()
                .for_each(|i| operands[*i].partial.extend(partial()));
            of.results
                .iter()
                .for_each(|i| results[*i].partial.extend(partial()));
        }
        for layout in operands.iter_mut().chain(&mut results) {
            layout.partial.sort_unstable();
        }
        Way {
            split: split.to_vec(),
            operands,
            results,
        }
    }

    /// Returns the ways to compute an equation with factors split along these atoms: with partial
    /// operands passed on if possible, and with partial operands reduced before.
    fn ways(&self, eqn: &Eqn, factors: &Factors, split: &[Vec<Atom>]) -> Vec<Way> {
        let plain = self.plain(factors, split);
        let mut ways = Vec::new();
        for Deferral { operands, passed } in self.deferrals(eqn, split) {
            let mut way = plain.clone();
            for operand in operands {
                way.operands[operand].partial.clone_from(&passed);
            }
            // A maximum of sums is not a sum of maxima.
            let mut all = way.results.iter().flat_map(|result| &result.partial);
            if !all.all(|(_, kind)| *kind == passed[0].1) {
                continue;
            }
            for result in &mut way.results {
                result.partial.extend(&passed);
                result.partial.sort_unstable();
            }
            ways.push(way);
        }
        ways.push(plain);
        ways
    }

    /// Returns the partial operands that an equation can pass on.
    fn deferrals(&self, eqn: &Eqn, split: &[Vec<Atom>]) -> Vec<Deferral> {
        let data = eqn.data();
        let is_unused = |atom: &Atom| !split.iter().any(|of| of.contains(atom));
        // The atoms along which an operand is available as a partial value of a kind.
        let partial = |i: usize, kind: Reduction| -> Vec<(Atom, Reduction)> {
            if self.needed.contains(data[i]) {
                return Vec::new();
            }
            let layouts = self.layouts(data[i]).iter();
            let most = layouts.max_by_key(|layout| layout.partial.len());
            let all = most
                .into_iter()
                .flat_map(|layout| layout.partial.iter().copied());
            all.filter(|(atom, of)| *of == kind && is_unused(atom))
                .collect()
        };
        let mut found = Vec::new();
        for kind in Reduction::ALL {
            for operands in commuting(self.program, eqn, kind) {
                let mut sets = operands.iter().map(|i| partial(*i, kind));
                let Some(first) = sets.next() else { continue };
                let common = sets.fold(first, |mut common, set| {
                    common.retain(|atom| set.contains(atom));
                    common
                });
                if !common.is_empty() {
                    found.push(Deferral {
                        operands,
                        passed: common,
                    });
                }
            }
        }
        found
    }

    fn cost(&self, eqn: &Eqn, way: &Way) -> Cost {
        let (mut sent, mut work) = (0, 0);
        let mut met: Vec<(Var, &Layout)> = Vec::new();
        for (var, layout) in eqn.data().iter().zip(&way.operands) {
            if !met.contains(&(*var, layout)) {
                sent += self.cheapest(*var, layout).0;
                met.push((*var, layout));
            }
            work += self.local_bytes(*var, layout);
        }
        for (var, layout) in eqn.outs.iter().zip(&way.results) {
            let wanted = match self.wishes.get(*var) {
                Some(wish) => Layout {
                    dims: wish.dims.clone(),
                    partial: Vec::new(),
                },
                None => layout.reduced(),
            };
            sent += self.path(*var, layout, &wanted).sent;
            work += self.local_bytes(*var, layout);
        }
        Cost { sent, work }
    }

    fn local_bytes(&self, var: Var, layout: &Layout) -> u128 {
        let shape = shape_of(self.program, var).expect("all shapes are known");
        local_bytes(self.grid, &shape, self.size(var), layout)
    }
}

/// Operands that stay partial, as the results do then.
struct Deferral {
    operands: Vec<usize>,
    /// The atoms along which they are partial, all of one kind.
    passed: Vec<(Atom, Reduction)>,
}

/// The state of the search for the best way.
struct Search<'a> {
    eqn: &'a Eqn,
    factors: &'a Factors,
    /// The lists of atoms to try for each factor.
    lists: &'a [Vec<Vec<Atom>>],
    split: Vec<Vec<Atom>>,
    best: Option<(Cost, Way)>,
    n_ways: usize,
}

/// A way to compute an equation.
#[derive(Clone, Debug)]
struct Way {
    split: Vec<Vec<Atom>>,
    operands: Vec<Layout>,
    results: Vec<Layout>,
}

/// The cost of a way: bytes sent first, then bytes read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    sent: u128,
    work: u128,
}

/// Returns sets of operands: if all operands of a set are partial along an atom, and the others are
/// whole, the reduction of the results is the result for the reduced operands.
pub(super) fn commuting(program: &Program, eqn: &Eqn, kind: Reduction) -> Vec<Vec<usize>> {
    let facts = eqn.op.def().facts();
    let n = eqn.data().len();
    let is_float = |i: &usize| {
        let dtype = program.aval(eqn.data()[*i]).dtype;
        dtype.is_some_and(|dtype| dtype.is_float())
    };
    if n > 0 && eqn.op.is_view() {
        return vec![vec![0]];
    }
    match kind {
        Reduction::Sum if facts.terms.is_some() => vec![(0..n).collect()],
        Reduction::Sum => match facts.linear {
            Linearity::No => Vec::new(),
            Linearity::Each(operands) => {
                let each = operands.iter().copied().filter(is_float);
                each.map(|i| vec![i]).collect()
            }
            Linearity::From(first) => vec![(first..n).collect()],
        },
        Reduction::Max | Reduction::Min if facts.rises => (0..n).map(|i| vec![i]).collect(),
        _ => Vec::new(),
    }
}

/// Returns whether an equation commutes with a reduction of an operand.
fn may_commute(program: &Program, eqn: &Eqn, operand: usize) -> bool {
    let mut kinds = Reduction::ALL.into_iter();
    kinds.any(|kind| {
        let mut sets = commuting(program, eqn, kind).into_iter();
        sets.any(|set| set.contains(&operand))
    })
}
