//! Loops and branches on the parts of a device.
//!
//! An op that runs programs can be split along an axis if each device can run the programs on its parts alone: devices
//! do not meet in a loop. So the axes of all values in the programs are put in *classes*. Axes of a class have one
//! factor in an equation, or are those of a state before and after a turn. A class is a factor of the op unless an
//! equation needs the whole axis.
//!
//! If an equation adds up the elements along a class, as the gradient of weights does in each turn, its result is
//! partial. This is allowed if the sum is only added to a state that is partial, too. Then the state is partial before
//! the first turn, where one device has it and the others have zeros, and after the last one, where it is reduced.

use super::choose::{Computed, Item, commuting};
use super::factors::{AxisFactor, Factor, Factors, Partial, projected, shape_of};
use super::grid::{Atom, Grid, Layout};
use super::local::LocalEqn;
use super::{Sharded, SpmdError};
use crate::op::Fails;
use crate::op::control::links::{Link, Links, Place};
use crate::sharding::Reduction;
use crate::{Eqn, Program, Programs, Static, Var};
use std::collections::{BTreeMap, BTreeSet};

/// The programs of an equation, with the factors of the equation in them.
#[derive(Clone, Debug)]
pub(super) struct Inner {
    programs: Vec<InnerProgram>,
}

#[derive(Clone, Debug)]
struct InnerProgram {
    program: Program,
    /// The factors of each equation.
    factors: Vec<Factors>,
    /// The factor of the outer equation that each of these is.
    outer: Vec<Vec<AxisFactor>>,
    /// The factors of the outer equation along which a variable is split.
    axes: BTreeMap<Var, Vec<AxisFactor>>,
    /// The factors of the outer equation along which a variable is partial, if they are split.
    partial: BTreeMap<Var, Vec<usize>>,
}

/// Returns the factors of an equation that runs programs, or `None` for another one.
///
/// # Errors
///
/// If a shape is not known.
pub(super) fn factors(program: &Program, eqn: &Eqn) -> Result<Option<Factors>, SpmdError> {
    let statics: Vec<Static> = eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect();
    let Some(links) = Links::of(eqn.op, &statics) else {
        return Ok(None);
    };
    let factors = links.programs.iter().map(|program| {
        let eqns = program.eqns.iter();
        eqns.map(|eqn| Factors::new(program, eqn)).collect()
    });
    let factors: Vec<Vec<Factors>> = factors.collect::<Result<_, _>>()?;
    let classes = Classes::new(&links, &factors)?;
    let mut numbers: Vec<usize> = Vec::new();
    let mut partial: Vec<BTreeSet<Place>> = Vec::new();
    let mut refused: BTreeSet<usize> = classes.refused.clone();
    let mut number = |class: usize| -> AxisFactor {
        if let Some(at) = numbers.iter().position(|known| *known == class) {
            return Some(at);
        }
        if refused.contains(&class) {
            return None;
        }
        let Some(sums) = classes.sums(&links, &factors, class) else {
            refused.insert(class);
            return None;
        };
        numbers.push(class);
        partial.push(sums);
        Some(numbers.len() - 1)
    };
    let mut axes_of =
        |vars: &[Var], links: &[Option<Link>]| -> Result<Vec<Vec<AxisFactor>>, SpmdError> {
            let mut all = Vec::new();
            for (var, link) in vars.iter().zip(links) {
                let shape = shape_of(program, *var)?;
                let Some(Link { place, is_stacked }) = *link else {
                    all.push(vec![None; shape.len()]);
                    continue;
                };
                let n_first = usize::from(is_stacked);
                let axes = (0..shape.len()).map(|axis| {
                    let class = classes.of(place, axis.checked_sub(n_first)?)?;
                    number(class)
                });
                all.push(axes.collect());
            }
            Ok(all)
        };
    let operands = axes_of(eqn.data(), &links.operands)?;
    let results = axes_of(&eqn.outs, &links.results)?;
    let all = numbers.iter().zip(&partial).map(|(class, sums)| {
        let (len, is_even) = classes.lens[class];
        Factor {
            len,
            is_even,
            reduced: (!sums.is_empty()).then_some(Reduction::Sum),
        }
    });
    let all = all.collect();
    let partial_of = partial.iter().map(|sums| {
        let those = |links: &[Option<Link>]| -> Vec<usize> {
            let has = |link: &Option<Link>| link.is_some_and(|link| sums.contains(&link.place));
            let found = links.iter().enumerate().filter(|(_, link)| has(link));
            found.map(|(i, _)| i).collect()
        };
        Partial {
            operands: those(&links.operands),
            results: those(&links.results),
        }
    });
    let partial_of = partial_of.collect();
    let outer = |class: usize| numbers.iter().position(|known| *known == class);
    let programs = links.programs.iter().zip(factors).enumerate();
    let programs = programs.map(|(i, (program, factors))| {
        let of_eqn = |classes: &Vec<Option<usize>>| -> Vec<AxisFactor> {
            classes.iter().map(|class| outer((*class)?)).collect()
        };
        let mut axes = BTreeMap::new();
        let mut sums: BTreeMap<Var, Vec<usize>> = BTreeMap::new();
        for var in variables(program) {
            let rank = shape_of(program, var)?.len();
            let own = (0..rank).map(|axis| outer(classes.of((i, var), axis)?));
            axes.insert(var, own.collect());
            let own = partial.iter().enumerate();
            let own = own.filter(|(_, sums)| sums.contains(&(i, var)));
            sums.insert(var, own.map(|(factor, _)| factor).collect());
        }
        Ok(InnerProgram {
            outer: classes.of_eqns[i].iter().map(of_eqn).collect(),
            program: (*program).clone(),
            factors,
            axes,
            partial: sums,
        })
    });
    let programs = programs.collect::<Result<_, SpmdError>>()?;
    Ok(Some(Factors {
        all,
        operands,
        likes: Vec::new(),
        results,
        partial: partial_of,
        inner: Some(Inner { programs }),
    }))
}

fn variables(program: &Program) -> impl Iterator<Item = Var> {
    let bound = program.eqns.iter().flat_map(|eqn| &eqn.outs);
    program.params.iter().chain(bound).copied()
}

/// The classes of the axes of all values in some programs.
struct Classes {
    /// A number for each axis that has a class, and the one that stands for its class.
    ids: BTreeMap<(Place, usize), usize>,
    roots: Vec<usize>,
    /// Classes that cannot be split.
    refused: BTreeSet<usize>,
    /// Number of parts that a class may have at most, and whether all parts must be equal.
    lens: BTreeMap<usize, (usize, bool)>,
    /// For each program and each of its equations, the class of each factor.
    of_eqns: Vec<Vec<Vec<Option<usize>>>>,
}

impl Classes {
    fn new(links: &Links<'_>, factors: &[Vec<Factors>]) -> Result<Classes, SpmdError> {
        let mut classes = Classes {
            ids: BTreeMap::new(),
            roots: Vec::new(),
            refused: BTreeSet::new(),
            lens: BTreeMap::new(),
            of_eqns: Vec::new(),
        };
        let mut needed_whole: Vec<usize> = Vec::new();
        for (i, program) in links.programs.iter().enumerate() {
            for var in variables(program) {
                for (axis, len) in shape_of(program, var)?.into_iter().enumerate() {
                    if len > 1 {
                        classes.ids.insert(((i, var), axis), classes.roots.len());
                        classes.roots.push(classes.roots.len());
                    }
                }
            }
            for (eqn, factors) in program.eqns.iter().zip(&factors[i]) {
                let mut first: Vec<Option<usize>> = vec![None; factors.all.len()];
                for (var, axes) in factors.values(eqn) {
                    for (axis, factor) in axes.iter().enumerate() {
                        let Some(id) = classes.ids.get(&((i, var), axis)).copied() else {
                            continue;
                        };
                        match factor {
                            Some(factor) => {
                                let other = *first[*factor].get_or_insert(id);
                                classes.join(other, id);
                            }
                            None => needed_whole.push(id),
                        }
                    }
                }
            }
        }
        for (a, b) in &links.ties {
            for axis in 0..shape_of(links.programs[a.0], a.1)?.len() {
                let ids = [a, b].map(|place| classes.ids.get(&(*place, axis)).copied());
                if let [Some(x), Some(y)] = ids {
                    classes.join(x, y);
                }
            }
        }
        let refused = needed_whole.into_iter().map(|id| classes.root(id));
        classes.refused = refused.collect();
        for (i, program) in links.programs.iter().enumerate() {
            let eqns = program.eqns.iter().zip(&factors[i]);
            let of_eqns = eqns.map(|(eqn, factors)| classes.of_factors(i, eqn, factors));
            let of_eqns = of_eqns.collect();
            classes.of_eqns.push(of_eqns);
        }
        classes.measure(links, factors);
        Ok(classes)
    }

    /// Fills the lengths, and refuses classes that a value has twice.
    fn measure(&mut self, links: &Links<'_>, factors: &[Vec<Factors>]) {
        for (i, program) in links.programs.iter().enumerate() {
            for var in variables(program) {
                let mut met = BTreeSet::new();
                let last = ((i, var), usize::MAX);
                let axes = self.ids.range(((i, var), 0)..=last);
                let classes: Vec<usize> = axes.map(|(_, id)| self.root(*id)).collect();
                for class in classes {
                    if !met.insert(class) {
                        self.refused.insert(class);
                    }
                }
            }
            for (at, (eqn, factors)) in program.eqns.iter().zip(&factors[i]).enumerate() {
                let fails = !matches!(eqn.op.def().facts().fails, Fails::Never);
                let mut met = BTreeSet::new();
                for (class, factor) in self.of_eqns[i][at].iter().zip(&factors.all) {
                    let Some(class) = *class else { continue };
                    if !met.insert(class) {
                        self.refused.insert(class);
                    }
                    // Devices do not know their position in a loop, which the mask of padding needs.
                    let is_even = factor.is_even || factor.reduced.is_some() || fails;
                    let (len, even) = self.lens.get(&class).copied().unwrap_or((0, false));
                    let len = common_divisor(len, factor.len);
                    self.lens.insert(class, (len, even || is_even));
                }
            }
        }
        // A state that no equation reads.
        let ids = self.ids.iter().map(|(axis, id)| (*axis, self.root(*id)));
        let ids: Vec<((Place, usize), usize)> = ids.collect();
        for (((i, var), axis), class) in ids {
            let shape = shape_of(links.programs[i], var).expect("all shapes are known");
            self.lens.entry(class).or_insert((shape[axis], false));
        }
    }

    fn root(&self, mut id: usize) -> usize {
        while self.roots[id] != id {
            id = self.roots[id];
        }
        id
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.roots[a.max(b)] = a.min(b);
    }

    /// Returns the class of an axis. An axis of length 1 has none.
    fn of(&self, place: Place, axis: usize) -> Option<usize> {
        let id = self.ids.get(&(place, axis))?;
        Some(self.root(*id))
    }

    /// Returns the class of each factor of an equation.
    fn of_factors(&self, program: usize, eqn: &Eqn, factors: &Factors) -> Vec<Option<usize>> {
        let mut classes = vec![None; factors.all.len()];
        for (var, axes) in factors.values(eqn) {
            for (axis, factor) in axes.iter().enumerate() {
                if let Some(factor) = factor {
                    classes[*factor] = classes[*factor].or(self.of((program, var), axis));
                }
            }
        }
        classes
    }

    /// Returns the places that are partial if a class is split, or `None` if one of them would have to be reduced in
    /// the programs.
    fn sums(
        &self,
        links: &Links<'_>,
        factors: &[Vec<Factors>],
        class: usize,
    ) -> Option<BTreeSet<Place>> {
        let mut sums: BTreeSet<Place> = BTreeSet::new();
        loop {
            let n_before = sums.len();
            // Places that an equation makes partial, of those that are results of equations.
            let mut made: BTreeSet<Place> = BTreeSet::new();
            for (i, program) in links.programs.iter().enumerate() {
                for (at, (eqn, factors)) in program.eqns.iter().zip(&factors[i]).enumerate() {
                    let mut of_eqn = self.of_eqns[i][at].iter();
                    let split = of_eqn.position(|of| *of == Some(class));
                    let is_partial = |place: &usize| sums.contains(&(i, eqn.data()[*place]));
                    let found: Vec<usize> = (0..eqn.data().len()).filter(is_partial).collect();
                    if let Some(factor) = split {
                        let Partial { operands, results } = &factors.partial[factor];
                        if !matches!(factors.all[factor].reduced, None | Some(Reduction::Sum))
                            || found.iter().any(|operand| !operands.contains(operand))
                        {
                            return None;
                        }
                        sums.extend(operands.iter().map(|operand| (i, eqn.data()[*operand])));
                        made.extend(results.iter().map(|result| (i, eqn.outs[*result])));
                    } else if !found.is_empty() {
                        let mut sets = commuting(program, eqn, Reduction::Sum).into_iter();
                        let set = sets.find(|set| found.iter().all(|of| set.contains(of)))?;
                        sums.extend(set.iter().map(|operand| (i, eqn.data()[*operand])));
                        made.extend(eqn.outs.iter().map(|out| (i, *out)));
                    }
                }
            }
            sums.extend(&made);
            for (a, b) in &links.ties {
                if sums.contains(a) || sums.contains(b) {
                    sums.extend([*a, *b]);
                }
            }
            if sums.len() == n_before {
                let is_param = |(i, var): &Place| links.programs[*i].params.contains(var);
                let is_right = sums
                    .iter()
                    .all(|place| made.contains(place) || is_param(place));
                let is_whole = links.conditions.iter().all(|place| !sums.contains(place));
                return (is_right && is_whole).then_some(sums);
            }
        }
    }
}

/// Returns the greatest common divisor. That of 0 and a number is the number.
fn common_divisor(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        b => common_divisor(b, a % b),
    }
}

impl Inner {
    /// Returns the programs that a device runs if factors of the equation are split along these atoms.
    ///
    /// `None` if an op in them does not take parts of these shapes.
    pub(super) fn local(&self, grid: &Grid, split: &[Vec<Atom>]) -> Option<Programs> {
        let programs = self.programs.iter().map(|of| of.local(grid, split));
        Some(Programs::new(programs.collect::<Option<_>>()?))
    }
}

impl InnerProgram {
    fn local(&self, grid: &Grid, split: &[Vec<Atom>]) -> Option<Program> {
        let layout = |var: &Var| -> Layout {
            let mut layout = projected(&self.axes[var], split);
            let sums = self.partial[var].iter().flat_map(|factor| &split[*factor]);
            layout.partial = sums.map(|atom| (*atom, Reduction::Sum)).collect();
            layout.partial.sort_unstable();
            layout
        };
        let layouts = |vars: &[Var]| -> Vec<Layout> { vars.iter().map(layout).collect() };
        let mut items = Vec::with_capacity(self.program.eqns.len());
        for (at, eqn) in self.program.eqns.iter().enumerate() {
            let outer = self.outer[at].iter();
            let split = outer.map(|factor| factor.map_or_else(Vec::new, |at| split[at].clone()));
            let split: Vec<Vec<Atom>> = split.collect();
            let likes = self.factors[at].likes.iter();
            let computed = Computed {
                eqn: at,
                likes: likes.map(|axes| projected(axes, &split)).collect(),
                operands: layouts(eqn.data()),
                results: layouts(&eqn.outs),
                split,
                is_gathered: false,
            };
            LocalEqn::new(grid, &self.program, &self.factors[at], &computed)?;
            items.push(Item::Compute(computed));
        }
        let sharded = Sharded {
            params: layouts(&self.program.params),
            outs: layouts(&self.program.outs),
            program: self.program.clone(),
            grid: grid.clone(),
            factors: self.factors.clone(),
            items,
        };
        Some(sharded.of_device())
    }
}
