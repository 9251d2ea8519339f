//! Last phase of planning: assigns memory to values, and makes tasks that refer to it.

use super::Plan;
use super::gifts::gifts;
use super::results::Results;
use super::times::Times;
use crate::backend::Place;
use crate::backend::{Build, Draft, Kind, Part, Root, Work};
use crate::plan::arena;
use crate::plan::arena::Life;
use crate::plan::chains;
use crate::plan::chains::chains;
use gradloom_ir::{Program, SecondaryMap, Var};
use gradloom_kernels::task::{Base, Needs, Region, Task};

/// Makes the plan: selects results, fuses chains, and assigns memory.
pub(super) fn finish(
    mut build: Build,
    program: &Program,
    places: &SecondaryMap<Var, Place>,
) -> Plan {
    let results = Results::of(&mut build, program, places);
    chains(&mut build);
    let times = Times::of(&mut build, &results);
    let (memory, needs) = Memory::of(&build.roots, &results, &times);
    let regions: Vec<_> = build.drafts.iter().map(|d| memory.regions(d)).collect();
    let in_order: Vec<_> = build.drafts.iter().map(|d| &d.in_order).collect();
    let gifts = gifts(&in_order, &regions, &results.outs, &needs);
    let maker = |root: &u32| times.made(*root).expect("each result is made by a task");
    let makers = results.roots.iter().map(maker).collect();

    let n_tasks = build.drafts.len();
    let mut tasks = Vec::with_capacity(n_tasks);
    let mut whats = Vec::with_capacity(n_tasks);
    let mut eqns = Vec::with_capacity(n_tasks);
    for (draft, (args, outs)) in build.drafts.into_iter().zip(regions) {
        let kernel = match draft.work {
            Work::Whole(kernel) => kernel,
            Work::Cut(link) => link.prepare(outs.iter().map(|r| r.len * r.dtype.size())),
            Work::Chain(members) => {
                chains::prepare(&build.roots, members, &draft.args, &draft.outs)
            }
        };
        tasks.push(Task::new(kernel, args, outs, &needs));
        whats.push(draft.what);
        eqns.push(draft.eqns);
    }
    Plan {
        tasks: tasks.into(),
        whats: whats.into(),
        eqns: eqns.into(),
        needs,
        constants: build.constants.into(),
        is_plain: results.are_outs(),
        outs: results.outs,
        gifts,
        makers,
        n_equations: program.eqns.len(),
    }
}

/// Location of each root in memory.
struct Memory<'a> {
    roots: &'a [Root],
    /// Buffer that contains each root, and the start in bytes.
    starts: Vec<(Base, usize)>,
}

impl<'a> Memory<'a> {
    /// Assigns a location to each root. Also returns the memory that a run needs.
    fn of(roots: &'a [Root], results: &Results, times: &Times) -> (Memory<'a>, Needs) {
        let size = |root: &Root| (root.dtype, root.len);
        let mut needs = Needs::default();
        let mut temporary: Vec<(usize, Life)> = Vec::new();
        let mut starts = Vec::with_capacity(roots.len());
        for (i, root) in roots.iter().enumerate() {
            let base = match (root.kind, results.number(i as u32)) {
                (Kind::Leaf(leaf), _) => {
                    needs.leaves.push(size(root));
                    Base::Leaf(leaf)
                }
                (Kind::Constant(constant), _) => {
                    needs.constants.push(size(root));
                    Base::Constant(constant)
                }
                (Kind::Made, Some(result)) => Base::Result(result),
                (Kind::Made, None) => {
                    let bytes = root.len.saturating_mul(root.dtype.size());
                    temporary.extend(times.life(i, bytes).map(|life| (i, life)));
                    Base::Arena
                }
            };
            starts.push((base, 0));
        }
        let sizes = results
            .roots
            .iter()
            .map(|root| size(&roots[*root as usize]));
        needs.results = sizes.collect();

        temporary.sort_by_key(|(_, life)| life.first);
        let lives: Vec<Life> = temporary.iter().map(|(_, life)| *life).collect();
        let (offsets, arena) = arena::offsets(&lives);
        for ((root, _), offset) in temporary.iter().zip(offsets) {
            starts[*root].1 = offset;
        }
        needs.arena = arena;
        (Memory { roots, starts }, needs)
    }

    /// Returns the memory of the operands and the results of a task.
    fn regions(&self, draft: &Draft) -> (Vec<Region>, Vec<Region>) {
        let whole = |root: &u32| {
            self.region(&Part {
                root: *root,
                start: 0,
                len: self.roots[*root as usize].len,
            })
        };
        let args = draft.args.iter().map(|part| self.region(part));
        (args.collect(), draft.outs.iter().map(whole).collect())
    }

    fn region(&self, part: &Part) -> Region {
        let dtype = self.roots[part.root as usize].dtype;
        let (base, offset) = self.starts[part.root as usize];
        Region {
            base,
            dtype,
            start: offset + part.start * dtype.size(),
            len: part.len,
        }
    }
}
