//! Last phase of planning: assigns memory to values, and makes tasks that refer to it.

use super::Plan;
use super::donation::donations;
use super::liveness::Liveness;
use super::results::PlanResults;
use crate::backend::View;
use crate::backend::{Slice, Storage, StorageKind, TaskBuilder, TaskDraft, TaskWork};
use crate::plan::arena;
use crate::plan::arena::LiveRange;
use crate::plan::chains;
use crate::plan::chains::chains;
use gradloom_ir::{Program, SecondaryMap, Var};
use gradloom_kernels::task::{BufferSizes, Region, RegionBase, Task};

/// Makes the plan: selects results, fuses chains, and assigns memory.
pub(super) fn assign_memory(
    mut build: TaskBuilder,
    program: &Program,
    places: &SecondaryMap<Var, View>,
) -> Plan {
    let results = PlanResults::of(&mut build, program, places);
    chains(&mut build);
    let liveness = Liveness::of(&mut build, &results);
    let (memory, needs) = MemoryPlan::of(&build.storages, &results, &liveness);
    let regions: Vec<_> = build.drafts.iter().map(|d| memory.regions(d)).collect();
    let in_order: Vec<_> = build.drafts.iter().map(|d| &d.in_order).collect();
    let donations = donations(&in_order, &regions, &results.outs, &needs);
    let maker = |root: &u32| liveness.made(*root).expect("each result is made by a task");
    let makers = results.storages.iter().map(maker).collect();

    let n_tasks = build.drafts.len();
    let mut tasks = Vec::with_capacity(n_tasks);
    let mut kinds = Vec::with_capacity(n_tasks);
    let mut eqns = Vec::with_capacity(n_tasks);
    for (draft, (args, outs)) in build.drafts.into_iter().zip(regions) {
        let kernel = match draft.work {
            TaskWork::Whole(kernel) => kernel,
            TaskWork::Fusable(work) => work.prepare(outs.iter().map(|r| r.len * r.dtype.size())),
            TaskWork::Chain(members) => {
                chains::prepare(&build.storages, members, &draft.args, &draft.outs)
            }
        };
        tasks.push(Task::new(kernel, args, outs, &needs));
        kinds.push(draft.what);
        eqns.push(draft.eqns);
    }
    Plan {
        tasks: tasks.into(),
        kinds: kinds.into(),
        eqns: eqns.into(),
        needs,
        constants: build.constants.into(),
        is_plain: results.are_outs(),
        outs: results.outs,
        donations,
        makers,
        n_equations: program.eqns.len(),
    }
}

/// Location of each root in memory.
struct MemoryPlan<'a> {
    storages: &'a [Storage],
    /// Buffer that contains each root, and the start in bytes.
    starts: Vec<(RegionBase, usize)>,
}

impl<'a> MemoryPlan<'a> {
    /// Assigns a location to each root. Also returns the memory that a run needs.
    fn of(
        storages: &'a [Storage],
        results: &PlanResults,
        liveness: &Liveness,
    ) -> (MemoryPlan<'a>, BufferSizes) {
        let size = |root: &Storage| (root.dtype, root.len);
        let mut needs = BufferSizes::default();
        let mut temporary: Vec<(usize, LiveRange)> = Vec::new();
        let mut starts = Vec::with_capacity(storages.len());
        for (i, root) in storages.iter().enumerate() {
            let base = match (root.kind, results.number(i as u32)) {
                (StorageKind::Leaf(leaf), _) => {
                    needs.leaves.push(size(root));
                    RegionBase::Leaf(leaf)
                }
                (StorageKind::Constant(constant), _) => {
                    needs.constants.push(size(root));
                    RegionBase::Constant(constant)
                }
                (StorageKind::Made, Some(result)) => RegionBase::Result(result),
                (StorageKind::Made, None) => {
                    let bytes = root.len.saturating_mul(root.dtype.size());
                    temporary.extend(liveness.life(i, bytes).map(|life| (i, life)));
                    RegionBase::Arena
                }
            };
            starts.push((base, 0));
        }
        let sizes = results
            .storages
            .iter()
            .map(|root| size(&storages[*root as usize]));
        needs.results = sizes.collect();

        temporary.sort_by_key(|(_, life)| life.first);
        let lives: Vec<LiveRange> = temporary.iter().map(|(_, life)| *life).collect();
        let (offsets, arena) = arena::offsets(&lives);
        for ((root, _), offset) in temporary.iter().zip(offsets) {
            starts[*root].1 = offset;
        }
        needs.arena = arena;
        (MemoryPlan { storages, starts }, needs)
    }

    /// Returns the memory of the operands and the results of a task.
    fn regions(&self, draft: &TaskDraft) -> (Vec<Region>, Vec<Region>) {
        let whole = |root: &u32| {
            self.region(&Slice {
                root: *root,
                start: 0,
                len: self.storages[*root as usize].len,
            })
        };
        let args = draft.args.iter().map(|part| self.region(part));
        (args.collect(), draft.outs.iter().map(whole).collect())
    }

    fn region(&self, part: &Slice) -> Region {
        let dtype = self.storages[part.root as usize].dtype;
        let (base, offset) = self.starts[part.root as usize];
        Region {
            base,
            dtype,
            start: offset + part.start * dtype.size(),
            len: part.len,
        }
    }
}
