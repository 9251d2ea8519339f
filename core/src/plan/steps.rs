//! Plans the equations of a program step by step.

use super::consumers::Consumers;
use super::control;
use super::groups::{group, sums};
use super::places::Places;
use super::{BOUND, aval};
use crate::Aval;
use crate::backend::cpu;
use crate::backend::{Eqns, Operand, TaskBuilder, View};
use gradloom_ir::pass;
use gradloom_ir::{Program, SecondaryMap, Static, Var};
use gradloom_kernels::memory::Layout;
use smallvec::SmallVec;

/// State of planning.
pub(super) struct Planning<'a> {
    pub(super) program: &'a Program,
    pub(super) build: TaskBuilder,
    pub(super) places: Places,
    /// Values that only groups read, and that have no memory.
    pub(super) placed: SecondaryMap<Var, Operand>,
    pub(super) consumers: Consumers,
    /// Variables whose elements are all the same known number.
    pub(super) constants: SecondaryMap<Var, f64>,
    pub(super) numbers: GroupNumbers,
}

/// Plans a program in steps. The first parameters are leaves.
///
/// Returns the tasks and the place of each value.
pub(super) fn steps(
    program: &Program,
    all: &[Vec<usize>],
    leaves: &[(usize, Layout)],
) -> (TaskBuilder, SecondaryMap<Var, View>) {
    let mut build = TaskBuilder::default();
    let mut places = Places::new(program, all);
    for (i, (len, layout)) in leaves.iter().enumerate() {
        let leaf = program.params[i];
        let dtype = aval(program, leaf).dtype();
        let place = build.leaf(i as u32, dtype, *len).with(layout.clone());
        places.insert(leaf, place);
    }
    let mut planning = Planning {
        program,
        build,
        places,
        placed: SecondaryMap::new(),
        consumers: Consumers::of(program),
        constants: pass::constants(program),
        numbers: GroupNumbers::default(),
    };
    let mut done = vec![false; program.eqns.len()];
    for (n, step) in all.iter().enumerate() {
        match step[..] {
            [i] if !pass::joins_groups(program, &program.eqns[i], &planning.constants) => {
                if !done[i] {
                    equation(&mut planning, i);
                    planning.places.copy_parts(&mut planning.build, n);
                }
            }
            _ => {
                let sums = sums(program, step, &planning.consumers);
                sums.iter().for_each(|(i, _)| done[*i] = true);
                group(&mut planning, step, &sums);
            }
        }
    }
    (planning.build, planning.places.into_map())
}

/// Returns whether an equation has one result, and only members of groups of the same shape read it.
fn only_groups_read(planning: &Planning<'_>, i: usize) -> bool {
    let Planning {
        program,
        consumers,
        constants,
        ..
    } = planning;
    let [out] = program.eqns[i].outs[..] else {
        return false;
    };
    let shape = &program.aval(out).shape;
    let mut readers = consumers.outside(out, &[]);
    readers.all(|by| {
        program.eqns.get(by).is_some_and(|reader| {
            let joins = pass::joins_groups(program, reader, constants);
            joins && program.aval(reader.out()).shape == *shape
        })
    })
}

/// Plans one equation that is not part of a group.
fn equation(planning: &mut Planning<'_>, i: usize) {
    let by_groups = only_groups_read(planning, i);
    let Planning {
        program,
        build,
        places,
        placed,
        consumers,
        ..
    } = planning;
    let eqn = &program.eqns[i];
    let of = |var: &Var| places.get(*var).expect(BOUND).clone();
    let args: SmallVec<[View; 4]> = eqn.data().iter().map(of).collect();
    let avals =
        |vars: &[Var]| -> SmallVec<[Aval; 2]> { vars.iter().map(|v| aval(program, *v)).collect() };
    let statics: SmallVec<[Static; 2]> =
        eqn.attrs.iter().map(|a| program.attr(*a).clone()).collect();
    let (likes, outs) = (avals(eqn.likes()), avals(&eqn.outs));
    build.op = eqn.op;
    build.eqns = Eqns::from_elem(i as u32, 1);
    let own = [i];
    build.requested = eqn.op.def().facts().byproduct.filter(|op| {
        let mut others = consumers.outside(eqn.args[0], &own);
        others.any(|by| {
            let other = program.eqns.get(by);
            other.is_some_and(|other| other.op == *op && other.args == eqn.args)
        })
    });
    let equation = cpu::Equation {
        op: eqn.op,
        statics: &statics,
        args: &args,
        likes: &likes,
        outs: &outs,
    };
    if by_groups && let Some(operand) = cpu::placed(build, &equation) {
        placed.insert(eqn.out(), operand);
        build.eqns.clear();
        return;
    }
    let made = match eqn.op.control() {
        Some(_) => control::lower(build, &equation),
        None => cpu::lower(build, &equation),
    };
    build.eqns.clear();
    for ((var, place), out) in eqn.outs.iter().zip(made).zip(&outs) {
        debug_assert_eq!(
            (out.dtype(), out.shape()),
            (place.dtype(), place.shape()),
            "{}",
            eqn.op
        );
        places.insert(*var, place);
    }
}

/// Numbers of variables within the current group. Starting a group is a constant-time reset.
#[derive(Default)]
pub(super) struct GroupNumbers {
    /// Group that set the number, and the number, for each variable.
    of: Vec<(u32, u32)>,
    group: u32,
}

impl GroupNumbers {
    /// Starts a group, in which no variable has a number.
    pub(super) fn next_group(&mut self) {
        self.group += 1;
    }

    /// Returns the number of a variable in the current group.
    pub(super) fn get(&self, var: Var) -> Option<usize> {
        let (group, number) = *self.of.get(var.0 as usize)?;
        (group == self.group).then_some(number as usize)
    }

    /// Sets the number of a variable in the current group.
    pub(super) fn set(&mut self, var: Var, number: usize) {
        let at = var.0 as usize;
        if self.of.len() <= at {
            self.of.resize(at + 1, (0, 0));
        }
        self.of[at] = (self.group, number as u32);
    }
}
