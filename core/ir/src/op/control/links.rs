//! The connections between the operands, the programs and the results of loops and branches.

use super::{branches, scan, while_back, while_loop};
use crate::{Op, Program, Static, Var};

/// A variable of one of the programs of an op.
pub(crate) type Place = (usize, Var);

/// How the operands, the programs and the results of a loop or a branch are connected.
pub(crate) struct Links<'a> {
    pub(crate) programs: Vec<&'a Program>,
    /// The place of each operand. The choice of a branch has none.
    pub(crate) operands: Vec<Option<Link>>,
    /// The place of each result.
    pub(crate) results: Vec<Option<Link>>,
    /// Places that have one value, or one after the other.
    pub(crate) ties: Vec<(Place, Place)>,
    /// The conditions of loops.
    pub(crate) conditions: Vec<Place>,
}

/// A connection of an operand or a result with a place.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    pub(crate) place: Place,
    /// True if the place has a slice along axis 0 in each turn.
    pub(crate) is_stacked: bool,
}

/// Returns whether [`Links::of`] knows the links of an op.
pub(crate) fn is_loop_or_branch(op: Op) -> bool {
    matches!(op, Op::Scan | Op::While | Op::WhileBack | Op::Switch)
}

impl<'a> Links<'a> {
    /// Returns the links of an op with these static arguments, or `None` if it is neither a loop nor a branch.
    pub(crate) fn of(op: Op, statics: &'a [Static]) -> Option<Links<'a>> {
        match op {
            Op::Scan => Some(Links::of_scan(scan::Parts::of(statics))),
            Op::While => Some(Links::of_while(while_loop::Parts::of(statics))),
            Op::WhileBack => Some(Links::of_while_back(while_back::Parts::of(statics))),
            Op::Switch => Some(Links::of_switch(branches(statics))),
            _ => None,
        }
    }

    fn of_scan(of: scan::Parts<'a>) -> Links<'a> {
        let link = |i: usize, var: &Var, n_before: usize| {
            Some(Link {
                place: (0, *var),
                is_stacked: i >= n_before,
            })
        };
        let (params, outs) = (&of.body.params, &of.body.outs);
        let operands = params.iter().enumerate();
        let results = outs.iter().enumerate();
        let states = params[of.consts..].iter().zip(outs).take(of.carry);
        Links {
            operands: operands
                .map(|(i, var)| link(i, var, of.consts + of.carry))
                .collect(),
            results: results.map(|(i, var)| link(i, var, of.carry)).collect(),
            ties: states.map(|(a, b)| ((0, *a), (0, *b))).collect(),
            conditions: Vec::new(),
            programs: vec![of.body],
        }
    }

    fn of_while(of: while_loop::Parts<'a>) -> Links<'a> {
        let (params, outs) = (&of.body.params, &of.body.outs);
        let states = params[of.consts..].iter().zip(outs);
        Links {
            operands: all(1, params),
            results: all(1, outs),
            ties: [
                tied((0, &of.cond.params), (1, params)),
                states.map(|(a, b)| ((1, *a), (1, *b))).collect(),
            ]
            .concat(),
            conditions: of.cond.outs.iter().map(|out| (0, *out)).collect(),
            programs: vec![of.cond, of.body],
        }
    }

    fn of_while_back(of: while_back::Parts<'a>) -> Links<'a> {
        let (there, back) = (of.forward, of.backward);
        let (states, taped) = there.outs.split_at(of.carry);
        let (consts, of_back) = back.params.split_at(of.consts);
        let (read, states_back) = of_back.split_at(taped.len());
        Links {
            operands: [all(1, &there.params), all(2, states_back)].concat(),
            results: all(2, &back.outs),
            ties: [
                tied((0, &of.cond.params), (1, &there.params)),
                tied((1, &there.params[of.consts..]), (1, states)),
                tied((1, &there.params[..of.consts]), (2, consts)),
                tied((1, taped), (2, read)),
                tied((2, states_back), (2, &back.outs)),
            ]
            .concat(),
            conditions: of.cond.outs.iter().map(|out| (0, *out)).collect(),
            programs: vec![of.cond, there, back],
        }
    }

    fn of_switch(branches: &'a [Program]) -> Links<'a> {
        let first = &branches[0];
        let ties = branches.iter().enumerate().skip(1).flat_map(|(i, branch)| {
            [
                tied((0, &first.params), (i, &branch.params)),
                tied((0, &first.outs), (i, &branch.outs)),
            ]
            .concat()
        });
        Links {
            operands: [vec![None], all(0, &first.params)].concat(),
            results: all(0, &first.outs),
            ties: ties.collect(),
            conditions: Vec::new(),
            programs: branches.iter().collect(),
        }
    }
}

/// Returns links to these variables of a program.
fn all(program: usize, vars: &[Var]) -> Vec<Option<Link>> {
    let link = |var: &Var| {
        Some(Link {
            place: (program, *var),
            is_stacked: false,
        })
    };
    vars.iter().map(link).collect()
}

fn tied(a: (usize, &[Var]), b: (usize, &[Var])) -> Vec<(Place, Place)> {
    let pairs = a.1.iter().zip(b.1);
    pairs.map(|(x, y)| ((a.0, *x), (b.0, *y))).collect()
}
