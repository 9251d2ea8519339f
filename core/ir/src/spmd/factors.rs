//! The factors of an equation, with their lengths.

use crate::op::{Axes, Axis};
use crate::sharding::Reduction;
use crate::{Eqn, Program, Shape, Static, Var};

use super::grid::{Atom, Grid, Layout};
use super::inner::{self, Inner};
use super::{SpmdError, name_of};

/// An axis of a value: the factor, and the number of elements of a block. `None` has no factor.
pub(super) type AxisFactor = Option<usize>;

/// The factors of an equation: see [`Axes`]. Factors of length 1 are left out.
#[derive(Clone, Debug)]
pub(super) struct Factors {
    pub(super) all: Vec<Factor>,
    /// For each data operand, the factors of its axes.
    pub(super) operands: Vec<Vec<AxisFactor>>,
    /// For each like operand, the factors of its axes.
    pub(super) likes: Vec<Vec<AxisFactor>>,
    /// For each result, the factors of its axes.
    pub(super) results: Vec<Vec<AxisFactor>>,
    /// For each factor, the values that are partial if it is split.
    pub(super) partial: Vec<Partial>,
    /// The programs that the equation runs, if devices can run them on parts.
    pub(super) inner: Option<Inner>,
}

/// The data operands and the results that are partial if a factor is split.
#[derive(Clone, Debug, Default)]
pub(super) struct Partial {
    pub(super) operands: Vec<usize>,
    pub(super) results: Vec<usize>,
}

/// A factor of an equation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factor {
    /// The number of indices.
    pub(super) len: usize,
    /// True if all parts must have the same number of indices.
    pub(super) is_even: bool,
    /// How the results that are partial are made from the parts.
    pub(super) reduced: Option<Reduction>,
}

/// Returns the shape of a variable.
///
/// # Errors
///
/// If it is not known.
pub(super) fn shape_of(program: &Program, var: Var) -> Result<Vec<usize>, SpmdError> {
    let aval = program.aval(var);
    let shape = aval.shape.known().filter(|_| aval.dtype.is_some());
    shape.ok_or_else(|| SpmdError::Unknown {
        value: name_of(program, var),
        aval: aval.to_string(),
    })
}

impl Factors {
    /// Returns the factors of an equation.
    ///
    /// # Errors
    ///
    /// If a shape is not known.
    pub(super) fn new(program: &Program, eqn: &Eqn) -> Result<Factors, SpmdError> {
        if let Some(factors) = inner::factors(program, eqn)? {
            return Ok(factors);
        }
        let shapes = |vars: &[Var]| {
            let shapes = vars.iter().map(|var| shape_of(program, *var));
            shapes.collect::<Result<Vec<_>, _>>()
        };
        let (data, likes, outs) = (
            shapes(eqn.data())?,
            shapes(eqn.likes())?,
            shapes(&eqn.outs)?,
        );
        let statics: Vec<Static> = eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect();
        let avals: Vec<_> = eqn.args.iter().map(|var| program.aval(*var)).collect();
        let results: Vec<Shape> = outs.iter().map(|shape| shape.as_slice().into()).collect();
        let axes = eqn.op.axes(&statics, &avals, &results);
        let own = |shapes: &[Vec<usize>]| -> Vec<Vec<Axis>> {
            let own = shapes.iter().map(|shape| vec![Axis::Own; shape.len()]);
            own.collect()
        };
        let axes = axes.unwrap_or_else(|| Axes {
            operands: own(&data),
            likes: own(&likes),
            results: own(&outs),
        });
        let mut numbers: Vec<(usize, Factor)> = Vec::new();
        let mut number = |axis: Axis, len: usize, adds: bool| -> AxisFactor {
            let (id, block) = (axis.factor()?, axis.block());
            let len = len / block;
            if len <= 1 {
                return None;
            }
            let reduced = match axis {
                Axis::Reduced(_, kind) => Some(kind),
                _ => None,
            };
            let at = numbers.iter().position(|(other, _)| *other == id);
            if at.is_none() && !adds {
                return None;
            }
            let at = at.unwrap_or_else(|| {
                let factor = Factor {
                    len,
                    is_even: false,
                    reduced: None,
                };
                numbers.push((id, factor));
                numbers.len() - 1
            });
            let factor = &mut numbers[at].1;
            factor.is_even |= block > 1;
            factor.reduced = factor.reduced.or(reduced);
            Some(at)
        };
        let mut list = |axes: &[Vec<Axis>], shapes: &[Vec<usize>], adds: bool| {
            let mut all = Vec::with_capacity(axes.len());
            for (axes, shape) in axes.iter().zip(shapes) {
                let axes = axes.iter().zip(shape);
                all.push(axes.map(|(axis, len)| number(*axis, *len, adds)).collect());
            }
            all
        };
        let operands = list(&axes.operands, &data, true);
        let results = list(&axes.results, &outs, true);
        let likes = list(&axes.likes, &likes, false);
        let all: Vec<Factor> = numbers.into_iter().map(|(_, factor)| factor).collect();
        let partial = all.iter().map(|factor| match factor.reduced {
            Some(_) => Partial {
                operands: Vec::new(),
                results: (0..outs.len()).collect(),
            },
            None => Partial::default(),
        });
        Ok(Factors {
            partial: partial.collect(),
            all,
            operands,
            likes,
            results,
            inner: None,
        })
    }

    /// Returns the values with factors: all data operands, then all results.
    pub(super) fn values<'a>(
        &'a self,
        eqn: &'a Eqn,
    ) -> impl Iterator<Item = (Var, &'a Vec<AxisFactor>)> {
        let operands = eqn.data().iter().copied().zip(&self.operands);
        operands.chain(eqn.outs.iter().copied().zip(&self.results))
    }

    /// Returns the longest part of a list of atoms that can split a factor.
    pub(super) fn fitting<'a>(&self, grid: &Grid, factor: usize, atoms: &'a [Atom]) -> &'a [Atom] {
        let Factor { len, is_even, .. } = self.all[factor];
        let mut n = atoms.len();
        while is_even && n > 0 && !len.is_multiple_of(grid.n_parts(&atoms[..n])) {
            n -= 1;
        }
        &atoms[..n]
    }
}

/// Returns the layout of a value whose factors are split along atoms.
pub(super) fn projected(axes: &[AxisFactor], split: &[Vec<Atom>]) -> Layout {
    let atoms = |axis: &AxisFactor| axis.map_or_else(Vec::new, |factor| split[factor].clone());
    Layout {
        dims: axes.iter().map(atoms).collect(),
        partial: Vec::new(),
    }
}
