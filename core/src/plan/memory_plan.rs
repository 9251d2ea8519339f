//! Last phase of planning: assigns memory to values, and makes tasks that refer to it.

use super::Plan;
use super::donation::donations;
use super::liveness::Liveness;
use super::results::PlanResults;
use crate::backend::View;
use crate::backend::{InPlace, Slice, Storage, StorageKind, TaskBuilder, TaskDraft, TaskWork};
use crate::plan::arena;
use crate::plan::arena::LiveRange;
use crate::plan::chains;
use crate::plan::chains::chains;
use gradloom_ir::{Program, SecondaryMap, Var};
use gradloom_kernels::task::{BufferSizes, Kernel, Region, RegionBase, Task};
use smallvec::SmallVec;

/// Makes the plan: selects results, fuses chains, and assigns memory.
pub(super) fn assign_memory(
    mut build: TaskBuilder,
    program: &Program,
    places: &SecondaryMap<Var, View>,
) -> Plan {
    let results = PlanResults::of(&mut build, program, places);
    chains(&mut build);
    let liveness = Liveness::of(&mut build, &results);
    let (memory, needs) = MemoryPlan::of(&build.drafts, &build.storages, &results, &liveness);
    let regions: Vec<_> = build.drafts.iter().map(|d| memory.regions(d)).collect();
    let (donations, first_safe) = donations(&build.drafts, &regions, &results.outs, &needs);
    let maker = |root: &u32| liveness.made(*root).expect("each result is made by a task");
    let makers = results.storages.iter().map(maker).collect();

    let n_tasks = build.drafts.len();
    let mut tasks = Vec::with_capacity(n_tasks);
    let mut kinds = Vec::with_capacity(n_tasks);
    let mut eqns = Vec::with_capacity(n_tasks);
    for (draft, regions) in build.drafts.into_iter().zip(regions) {
        let kernel = match draft.work {
            TaskWork::Whole(kernel) => Kernel::Slices(kernel),
            TaskWork::Fusable(work) => {
                work.prepare(regions.outs().iter().map(|r| r.len * r.dtype.size()))
            }
            TaskWork::Chain(members) => Kernel::Slices(chains::prepare(
                &build.storages,
                members,
                &draft.args,
                &draft.outs,
            )),
        };
        tasks.push(Task::new(kernel, regions.all, regions.n_args, &needs));
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
        first_safe,
        makers,
        n_equations: program.eqns.len(),
        limit: usize::MAX,
        limited: None,
    }
}

/// Memory of the operands and of the results of a task.
pub(super) struct TaskRegions {
    /// The operands, then the results.
    all: Box<[Region]>,
    n_args: usize,
}

impl TaskRegions {
    pub(super) fn args(&self) -> &[Region] {
        &self.all[..self.n_args]
    }

    pub(super) fn outs(&self) -> &[Region] {
        &self.all[self.n_args..]
    }
}

/// Size in bytes from which a group computes in the memory of an operand.
///
/// It copies each piece of such a result from a register. That takes longer than to write other memory, if both are in a
/// cache.
const SHARED_BYTES: usize = 1 << 20;

/// Roots that share memory, because a task changes one into the other in place.
struct SharedMemory {
    /// Last root in the memory of each root.
    last_root: Vec<u32>,
    /// First task that writes the memory of each last root, if other roots were there before.
    first_task: Vec<Option<usize>>,
}

impl SharedMemory {
    /// A task computes a result in the memory of an operand that it is the last to read, if it can do so and the operand is
    /// not a result of the plan. Values of less than [`SHARED_BYTES`] are only changed in place.
    fn of(
        drafts: &[TaskDraft],
        storages: &[Storage],
        results: &PlanResults,
        liveness: &Liveness,
    ) -> SharedMemory {
        let mut shared = SharedMemory {
            last_root: (0..storages.len() as u32).collect(),
            first_task: vec![None; storages.len()],
        };
        let size = |root: u32| {
            let Storage { dtype, len, .. } = storages[root as usize];
            (dtype, len)
        };
        for (i, draft) in drafts.iter().enumerate().rev() {
            let made = &draft.outs[..draft.in_place.n_results()];
            let first = made.iter().filter(|y| liveness.made(**y) == Some(i));
            let mut free: SmallVec<[u32; 4]> = first.copied().collect();
            if free.is_empty() {
                continue;
            }
            for (n, x) in draft.args.iter().enumerate() {
                let (dtype, len) = size(x.root);
                let pays = matches!(draft.in_place, InPlace::Update)
                    || len.saturating_mul(dtype.size()) >= SHARED_BYTES;
                let whole = x.start == 0 && x.len == len;
                let last = liveness.last(x.root) == i && results.number(x.root).is_none();
                if !(draft.in_place.takes(n) && pays && whole && last) {
                    continue;
                }
                let once = draft.args.iter().filter(|part| part.root == x.root).count() == 1;
                let y = free.iter().position(|y| size(*y) == (dtype, len));
                if let (true, Some(y), Some(made)) = (once, y, liveness.made(x.root)) {
                    let last_root = shared.last_root[free.swap_remove(y) as usize];
                    shared.last_root[x.root as usize] = last_root;
                    shared.first_task[last_root as usize] = Some(made);
                }
            }
        }
        shared
    }

    /// Returns the live range of the memory whose last root has the live range `life`.
    fn extend(&self, root: usize, life: LiveRange) -> LiveRange {
        LiveRange {
            first: self.first_task[root].unwrap_or(life.first),
            ..life
        }
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
        drafts: &[TaskDraft],
        storages: &'a [Storage],
        results: &PlanResults,
        liveness: &Liveness,
    ) -> (MemoryPlan<'a>, BufferSizes) {
        let size = |root: &Storage| (root.dtype, root.len);
        let shared = SharedMemory::of(drafts, storages, results, liveness);
        let mut needs = BufferSizes::default();
        let mut temporary: Vec<(usize, LiveRange)> = Vec::new();
        let mut starts = Vec::with_capacity(storages.len());
        for (i, root) in storages.iter().enumerate() {
            let last_root = shared.last_root[i];
            let base = match (root.kind, results.number(last_root)) {
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
                    if last_root == i as u32 {
                        let life = liveness.life(i, bytes);
                        temporary.extend(life.map(|life| (i, shared.extend(i, life))));
                    }
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
        for root in 0..storages.len() {
            starts[root].1 = starts[shared.last_root[root] as usize].1;
        }
        needs.arena = arena;
        (MemoryPlan { storages, starts }, needs)
    }

    /// Returns the memory of the operands and the results of a task.
    fn regions(&self, draft: &TaskDraft) -> TaskRegions {
        let whole = |root: &u32| {
            self.region(&Slice {
                root: *root,
                start: 0,
                len: self.storages[*root as usize].len,
            })
        };
        let args = draft.args.iter().map(|part| self.region(part));
        TaskRegions {
            n_args: draft.args.len(),
            all: args.chain(draft.outs.iter().map(whole)).collect(),
        }
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
