//! Places of variables, and the step that reads each last.

use super::BOUND;
use crate::backend::{InPlace, TaskBuilder, View};
use gradloom_ir::{Program, SecondaryMap, Var};
use gradloom_kernels::memory::numel;
use smallvec::SmallVec;

/// Place of each variable that has been planned.
pub(super) struct Places {
    of: SecondaryMap<Var, View>,
    /// Variables in each root.
    in_root: Vec<SmallVec<[Var; 1]>>,
    /// Last step that reads each variable. An output is read after all steps.
    last: SecondaryMap<Var, usize>,
}

impl Places {
    /// Returns the places of the variables of a program that is planned in these steps: none yet.
    pub(super) fn new(program: &Program, steps: &[Vec<usize>]) -> Places {
        let mut last = SecondaryMap::new();
        for (step, eqns) in steps.iter().enumerate() {
            for var in eqns.iter().flat_map(|i| program.eqns[*i].data()) {
                last.insert(*var, step);
            }
        }
        for out in &program.outs {
            last.insert(*out, usize::MAX);
        }
        Places {
            of: SecondaryMap::new(),
            in_root: Vec::new(),
            last,
        }
    }

    pub(super) fn get(&self, var: Var) -> Option<&View> {
        self.of.get(var)
    }

    pub(super) fn insert(&mut self, var: Var, place: View) {
        let root = place.root as usize;
        if self.in_root.len() <= root {
            self.in_root.resize_with(root + 1, SmallVec::new);
        }
        self.in_root[root].push(var);
        self.of.insert(var, place);
    }

    /// Copies the parts that are read after `step` of a value that the last task updates, if those are few elements.
    ///
    /// They would keep the value in memory, so that the update would copy all of it: n rows, each read before it is
    /// changed and used at the end, would take n copies of the whole.
    pub(super) fn copy_parts(&mut self, build: &mut TaskBuilder, step: usize) {
        let Some(update) = build.drafts.last() else {
            return;
        };
        let (InPlace::Update, Some(x)) = (&update.in_place, update.args.first()) else {
            return;
        };
        let Some(vars) = self.in_root.get_mut(x.root as usize) else {
            return;
        };
        vars.retain(|var| self.last.get(*var).is_some_and(|last| *last > step));
        let place = |var: &Var| self.of.get(*var).expect(BOUND);
        let n: usize = vars.iter().map(|var| numel(place(var).shape())).sum();
        if vars.is_empty() || n > x.len / 2 {
            return;
        }
        let update = build.drafts.pop();
        for var in std::mem::take(vars) {
            let copy = build.copy(self.of.get(var).expect(BOUND));
            self.insert(var, copy);
        }
        build.drafts.extend(update);
    }

    /// Returns the place of each variable.
    pub(super) fn into_map(self) -> SecondaryMap<Var, View> {
        self.of
    }
}
