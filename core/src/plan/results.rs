//! Results of a plan: leaves, and storages that tasks make.

use super::{BOUND, Out};
use crate::backend::View;
use crate::backend::{StorageKind, TaskBuilder};
use gradloom_ir::{Op, Program, SecondaryMap, Var};

/// Results of a plan.
pub(super) struct PlanResults {
    /// Leaf or result for each output of the program.
    pub(super) outs: Box<[Out]>,
    /// Storage of each result.
    pub(super) storages: Vec<u32>,
    /// Index of the result for each root.
    number: Vec<Option<u32>>,
}

impl PlanResults {
    /// Determines the results and adds copies where necessary.
    ///
    /// Outputs that are the same root share one result. A view or a constant is copied to a root of
    /// its own.
    pub(super) fn of(
        build: &mut TaskBuilder,
        program: &Program,
        places: &SecondaryMap<Var, View>,
    ) -> PlanResults {
        let eqns = program.eqns.iter();
        let made_by_op: SecondaryMap<Var, Op> = eqns
            .flat_map(|e| e.outs.iter().map(|v| (*v, e.op)))
            .collect();
        let mut storages = Vec::new();
        let mut number: Vec<Option<u32>> = Vec::new();
        let outs = program.outs.iter().map(|var| {
            build.op = made_by_op.get(*var).copied().unwrap_or(Op::Identity);
            let place = places.get(*var).expect(BOUND);
            let root = &build.storages[place.root as usize];
            let whole = place.layout.is_contiguous() && place.layout.numel() == root.len;
            if let (StorageKind::Leaf(i), true) = (root.kind, whole) {
                return Out::Leaf(i);
            }
            let root = build.whole(place).root;
            number.resize(build.storages.len(), None);
            Out::Result(*number[root as usize].get_or_insert_with(|| {
                storages.push(root);
                storages.len() as u32 - 1
            }))
        });
        let outs = outs.collect();
        PlanResults {
            outs,
            storages,
            number,
        }
    }

    /// Returns the index of the result that a root is.
    pub(super) fn number(&self, root: u32) -> Option<u32> {
        self.number.get(root as usize).copied().flatten()
    }

    /// Returns whether output `i` is result `i` for all outputs.
    pub(super) fn are_outs(&self) -> bool {
        let nth = |(i, out): (usize, &Out)| matches!(out, Out::Result(r) if *r as usize == i);
        self.outs.iter().enumerate().all(nth)
    }
}
